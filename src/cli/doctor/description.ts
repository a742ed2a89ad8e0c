/** The findings as text for a terminal: each said once, no line longer than the terminal is wide. */
import type { BackendReport } from '../../kernels/index.js';
import type { Diagnosis } from './diagnosis.js';
import type { Examination } from './examination.js';

/** Columns left of what is said about a backend. */
const INDENT = 26;

/**
 * The lines that `tensortally doctor` prints.
 *
 * @param width characters per line; what has no space, such as a path, and commands in backquotes are kept whole
 */
export function describeDiagnosis(diagnosis: Diagnosis, width = 100): string[] {
  const { versions, auto, backends, binding } = diagnosis;
  const isChecked = Object.values(backends).some(({ outcome }) => outcome === 'passed');
  const lines = [
    Object.entries(versions)
      .map(([name, version]) => `${name} ${version}`)
      .join(' · '),
    '',
    ...Object.entries(backends).flatMap(([name, examination]) =>
      describeExamination(name, examination, width),
    ),
    '',
    ...(isChecked ? ['What is ok runs here and has passed the self-check.'] : []),
    ...wrap(
      '',
      auto.outcome === 'passed'
        ? `auto chooses ${auto.report.backend}.`
        : `auto finds no backend that works: ${auto.reason}`,
      { width },
    ),
  ];
  const { tensorflow } = backends;
  const isLinked = binding.state === 'linked';
  // A backend that cannot run for lack of the binding has said so, with the remedy.
  if (!isLinked && tensorflow.outcome === 'unavailable' && tensorflow.remedy === binding.remedy) return lines;
  lines.push(...wrap('TensorFlow binding: ', binding.detail, { width, indent: 2 }));
  if (!isLinked) lines.push(...wrap('  To do: ', `${binding.remedy}.`, { width, indent: 2 }));
  return lines;
}

const verdicts = { passed: 'ok', unavailable: 'cannot run', failed: 'WRONG', crashed: 'CRASHED' } as const;

function describeExamination(name: string, examination: Examination, width: number): string[] {
  const { outcome } = examination;
  const heading = `  ${name.padEnd(12)}${verdicts[outcome].padEnd(12)}`;
  const layout = { width, indent: INDENT };
  const said = outcome === 'passed' ? describeReport(examination.report) : examination.reason;
  const lines = wrap(heading, said, layout);
  const say = (text: string): void => {
    lines.push(...wrap(' '.repeat(INDENT), text, layout));
  };
  if (outcome === 'unavailable') say(`to do: ${examination.remedy}`);
  if (outcome === 'passed') for (const text of limitsOf(examination.report)) say(text);
  return lines;
}

/** What runs, but not as well as it could. */
function limitsOf({ plain, missingTrainingKernels: missing }: BackendReport): string[] {
  return [
    ...(plain === undefined ? [] : [`slow plain loops: ${plain.reason}`, `to do: ${plain.remedy}`]),
    ...(missing.length === 0 ? [] : [`trains no layer whose gradient needs ${missing.join(', ')}`]),
  ];
}

function describeReport({ device, driver, isGpu, isSoftware }: BackendReport): string {
  const kind = isSoftware ? ' (a software adapter)' : isGpu && !device.includes('GPU') ? ' (GPU)' : '';
  return `${device}${driver === undefined ? '' : `, ${driver}`}${kind}`;
}

/** `head` and the words of `text`, broken at spaces; the lines after the first are indented. */
function wrap(
  head: string,
  text: string,
  { width, indent = 0 }: { readonly width: number; readonly indent?: number },
): string[] {
  const lines: string[] = [];
  let line = head;
  let isFresh = true;
  for (const [word] of text.matchAll(/`[^`]*`\S*|\S+/g)) {
    if (!isFresh && line.length + 1 + word.length > width) {
      lines.push(line);
      line = ' '.repeat(indent);
      isFresh = true;
    }
    line += isFresh ? word : ` ${word}`;
    isFresh = false;
  }
  return [...lines, line];
}
