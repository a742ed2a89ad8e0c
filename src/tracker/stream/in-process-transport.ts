/** The transport of a worker that lives in the process of its controller. */
import { kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import { type StreamIngest, assertBytes } from './ingest.js';
import type { DeltaAck, StreamTransport } from './transport.js';

/** Workers and controller in one process. */
export class InProcessTransport implements StreamTransport {
  readonly delivery = 'direct';
  readonly #ingest: Pick<StreamIngest, 'receive'>;

  /** @throws ValueError for anything but an ingest */
  constructor(ingest: Pick<StreamIngest, 'receive'>) {
    if (typeof (ingest as StreamIngest | null | undefined)?.receive !== 'function') {
      throw new ValueError({
        where: 'InProcessTransport',
        input: 'ingest',
        expected: 'a StreamIngest',
        received: kindOf(ingest),
        remedy: 'pass new StreamIngest()',
      });
    }
    this.#ingest = ingest;
  }

  /** @throws ValueError for what are no bytes */
  async send(delta: Uint8Array): Promise<DeltaAck> {
    assertBytes('InProcessTransport.send', 'delta', delta);
    return Promise.resolve(this.#ingest.receive(delta));
  }
}
