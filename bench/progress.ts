/** What a person sees while it runs: one line that changes on a terminal, one line per job elsewhere. */

/** The stream that progress goes to, never the one of the results. */
export interface ProgressStream {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

export class Progress {
  readonly #stream: ProgressStream;
  readonly #jobs: number;
  #job = 0;
  #name = '';

  constructor(stream: ProgressStream, jobs: number) {
    this.#stream = stream;
    this.#jobs = jobs;
  }

  begin(name: string): void {
    this.#job++;
    this.#name = name;
    if (this.#stream.isTTY === true) this.tell('starting');
    else this.#stream.write(`${this.#line()}\n`);
  }

  tell(text: string): void {
    if (this.#stream.isTTY === true) this.#stream.write(`\r\x1b[K${this.#line()}: ${text}`);
  }

  end(): void {
    if (this.#stream.isTTY === true) this.#stream.write('\r\x1b[K');
  }

  /** A line that stays. */
  note(text: string): void {
    this.#stream.write(`${text}\n`);
  }

  #line(): string {
    return `[${this.#job}/${this.#jobs}] ${this.#name}`;
  }
}
