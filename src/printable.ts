/**
 * Text that is safe to show: what a terminal obeys or does not show is spelled out.
 *
 * Names of metrics come from wherever the user has them, tool names and data sources of a rollout included. An ESC in
 * one could clear the screen, a newline could forge a row of a table, and a bidirectional control could turn what
 * follows around.
 */

/**
 * Controls (C0, DEL, C1), format characters (bidirectional controls, zero-width ones, tags), separators of lines and
 * paragraphs, halves of surrogate pairs, and the rest of what Unicode calls ignorable.
 */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

/** Nearly all texts are plain; to find that out is cheaper than to look each character up. */
const BEYOND_ASCII = /[^ -~]/;

const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** `text` on one line, with everything that would not print as itself as an escape: `\n`, `\u001b`, `\u{e0041}`. */
export function printable(text: string): string {
  if (!BEYOND_ASCII.test(text)) return text;
  return text.replace(UNPRINTABLE, (character) => SHORT[character] ?? codePointEscape(character));
}

/** `text` line by line: its newlines stay, for what is meant to have several, such as a stack. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n');
}

/**
 * JSON with the same characters as escapes of JSON (`\u009b`), so that it means the same and can be shown.
 *
 * @param json what `JSON.stringify` returned; its own line breaks stay
 */
export function printableJson(json: string): string {
  // JSON has escaped C0 already. As many bytes as characters means ASCII, and is the fastest way to find that out.
  if (Buffer.byteLength(json) === json.length && !json.includes('\u007f')) return json;
  return json.replace(UNPRINTABLE, (character) => (character === '\n' ? character : unitEscapes(character)));
}

function codePointEscape(character: string): string {
  const digits = character.codePointAt(0)!.toString(16);
  return digits.length > 4 ? `\\u{${digits}}` : `\\u${digits.padStart(4, '0')}`;
}

/** JSON has escapes for UTF-16 units only. */
function unitEscapes(character: string): string {
  return Array.from(
    { length: character.length },
    (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`,
  ).join('');
}
