/** Catches what a tracker warns of. Not a test. */
import { vi } from 'vitest';

interface Warning {
  readonly code: string | undefined;
  readonly text: string;
}

/** The warnings of this process since it was made; they go no further. */
export class CaughtWarnings {
  readonly #caught: Warning[] = [];
  readonly #spy;

  constructor() {
    const keep = (text: string | Error, options?: unknown): void => {
      this.#caught.push({ text: String(text), code: (options as { code?: string } | undefined)?.code });
    };
    this.#spy = vi.spyOn(process, 'emitWarning').mockImplementation(keep);
  }

  /** Texts of the warnings with `code`. */
  of(code: string): string[] {
    return this.#caught.filter((warning) => warning.code === code).map(({ text }) => text);
  }

  get count(): number {
    return this.#caught.length;
  }

  /** Lets warnings through again. */
  stop(): void {
    this.#spy.mockRestore();
  }
}
