/** Workers and transports for tests of streams. Not a test. */
import { StreamEmitter, type StreamEmitterOptions } from '../../../../src/tracker/stream/emitter.js';
import type { StreamIngest } from '../../../../src/tracker/stream/ingest.js';
import type { DeltaAck, StreamTransport } from '../../../../src/tracker/stream/transport.js';

/** A direct transport that does what `send` does. */
export function transport(
  send: (delta: Uint8Array, options: { readonly signal: AbortSignal }) => DeltaAck | Promise<DeltaAck>,
  delivery: StreamTransport['delivery'] = 'direct',
): StreamTransport {
  return { delivery, send: async (delta, options) => send(delta, options) };
}

/** Accepts and keeps everything, for later. */
export class Mailbox implements StreamTransport {
  readonly delivery = 'stored';
  readonly deltas: Uint8Array[] = [];

  send(delta: Uint8Array): Promise<DeltaAck> {
    this.deltas.push(delta);
    return Promise.resolve({ status: 'accepted' });
  }
}

/** The deltas of one worker life, one per entry of `values`: a sample each of `rollout/reward`. */
export async function deltasOf(
  values: readonly number[],
  options: Partial<StreamEmitterOptions> = {},
): Promise<Uint8Array[]> {
  const mailbox = new Mailbox();
  const emitter = new StreamEmitter(mailbox, { workerId: 'rollout-0', epoch: 1, ...options });
  for (const reward of values) {
    emitter.scalar({ 'rollout/reward': reward });
    await emitter.flush();
  }
  return mailbox.deltas;
}

/** The export without what it says of the stream. */
export function recordsOf(ingest: StreamIngest, reset = true): Record<string, number> {
  const numbers = Object.entries(ingest.export({ reset }));
  return Object.fromEntries(numbers.filter(([key]) => !key.startsWith('stream/')));
}
