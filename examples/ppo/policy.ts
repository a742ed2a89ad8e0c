/**
 * The network that the actor and the critic are two copies of: a small causal transformer, and its parameters.
 *
 * It is written with operations that have kernels and gradients on every tfjs backend, and is no example of a fast
 * transformer: embeddings are one-hot products (the gradient of `gather` needs a kernel that wasm lacks), and `dense`
 * has its own gradient (see there). Reads are never forced here; callers await `data()`.
 */
import * as tf from '@tensorflow/tfjs';
import type { Random } from './random.js';

/** The sizes of one network. */
export interface NetworkConfig {
  readonly vocabulary: number;
  /** Longest sequence, in tokens. */
  readonly length: number;
  readonly width: number;
  readonly heads: number;
  readonly layers: number;
  /** Width of the last layer: the response vocabulary for an actor, 1 for a critic. */
  readonly outputs: number;
}

/** The trainable parameters by name, in a fixed order. */
export type Parameters = ReadonlyMap<string, tf.Variable>;

/** A causal transformer over token sequences with one linear head. */
export class Network {
  readonly parameters: Parameters;

  /**
   * @param config The sizes.
   * @param random Where the initial weights are drawn from, so that a seed fixes them.
   */
  constructor(
    readonly config: NetworkConfig,
    random: Random,
  ) {
    this.parameters = initialise(config, random);
  }

  /** The variables, as optimisers and `tf.variableGrads` want them. */
  get variables(): tf.Variable[] {
    return [...this.parameters.values()];
  }

  /**
   * The head's outputs at the places `from … from + count − 1`.
   *
   * @param tokens `[B, S]` int32 token ids, S ≤ `length`.
   * @param attention `[B, S]` float32, 1 where a token may be attended to, 0 at padding.
   * @returns `[B, count, outputs]` float32.
   */
  forward(tokens: tf.Tensor2D, attention: tf.Tensor2D, from: number, count: number): tf.Tensor3D {
    return tf.tidy(() => {
      const { vocabulary, width, layers } = this.config;
      const [batch, length] = tokens.shape;
      const oneHot = tf.cast(tf.oneHot(tokens, vocabulary), 'float32');
      const places = tf.slice(this.parameter('place'), [0, 0], [length, width]);
      let state: tf.Tensor = tf.add(this.project(oneHot, 'token'), places);
      const blocked = blockedPlaces(attention);
      for (let layer = 0; layer < layers; layer += 1) {
        const name = `layer${layer}`;
        state = tf.add(state, this.attend(this.normalise(state, `${name}.before`), name, blocked));
        state = tf.add(state, this.transform(this.normalise(state, `${name}.between`), name));
      }
      const wanted = tf.slice(state, [0, from, 0], [batch, count, width]);
      const head = this.project(this.normalise(wanted, 'last'), 'head');
      return tf.add<tf.Tensor3D>(head, this.parameter('head.bias'));
    });
  }

  /** Frees the parameters. */
  dispose(): void {
    for (const variable of this.parameters.values()) variable.dispose();
  }

  private parameter(name: string): tf.Variable {
    return this.parameters.get(name)!;
  }

  /** Multi-head attention of every place over the places that `blocked` leaves open. */
  private attend(state: tf.Tensor, name: string, blocked: tf.Tensor): tf.Tensor {
    const { width, heads } = this.config;
    const [batch, length] = state.shape as [number, number];
    const split = (part: string): tf.Tensor => {
      const projected = this.project(state, `${name}.${part}`);
      return tf.transpose(tf.reshape(projected, [batch, length, heads, width / heads]), [0, 2, 1, 3]);
    };
    const scores = tf.matMul(split('query'), split('key'), false, true);
    const weights = tf.softmax(tf.add(tf.mul(scores, Math.sqrt(heads / width)), blocked));
    const mixed = tf.transpose(tf.matMul(weights, split('value')), [0, 2, 1, 3]);
    return this.project(tf.reshape(mixed, [batch, length, width]), `${name}.join`);
  }

  /** The two-layer perceptron that follows attention. */
  private transform(state: tf.Tensor, name: string): tf.Tensor {
    const up = tf.add(this.project(state, `${name}.up`), this.parameter(`${name}.up.bias`));
    return tf.add(this.project(tf.relu(up), `${name}.down`), this.parameter(`${name}.down.bias`));
  }

  /** Root-mean-square normalisation of the last axis. */
  private normalise(state: tf.Tensor, name: string): tf.Tensor {
    const power = tf.mean(tf.square(state), -1, true);
    return tf.mul(tf.div(state, tf.sqrt(tf.add(power, 1e-6))), this.parameter(name));
  }

  /** `[…, in]` · `[in, out]`: all places at once, as one matrix product. */
  private project(state: tf.Tensor, name: string): tf.Tensor {
    const weight = this.parameter(name) as tf.Tensor2D;
    const [inputs, outputs] = weight.shape;
    const rows = tf.reshape<tf.Rank.R2>(state, [-1, inputs]);
    return tf.reshape(dense(rows, weight), [...state.shape.slice(0, -1), outputs]);
  }
}

/**
 * `x · w` for two matrices, with a gradient that only multiplies untransposed matrices.
 *
 * tfjs' own gradient of `matMul` asks for products with a transposed operand. The wasm backend runs those in a plain
 * loop, 8 to 20 times slower than a transpose followed by its fast product; the other backends hardly notice.
 */
const dense = tf.customGrad((...args) => {
  const [x, w, save] = args as unknown as [tf.Tensor2D, tf.Tensor2D, (tensors: tf.Tensor[]) => void];
  save([x, w]);
  return {
    value: tf.matMul(x, w),
    gradFunc: (dy: tf.Tensor2D, saved: tf.Tensor[]) => {
      const [input, weight] = saved as [tf.Tensor2D, tf.Tensor2D];
      return [tf.matMul(dy, tf.transpose(weight)), tf.matMul(tf.transpose(input), dy)];
    },
  };
}) as (x: tf.Tensor2D, w: tf.Tensor2D) => tf.Tensor2D;

/** `[B, 1, S, S]`: 0 where a place may look, −10⁹ at later places and at padding. */
function blockedPlaces(attention: tf.Tensor2D): tf.Tensor {
  const [batch, length] = attention.shape;
  const later = new Float32Array(length * length);
  for (let row = 0; row < length; row += 1) later.fill(-1e9, row * length + row + 1, (row + 1) * length);
  const padding = tf.mul(tf.sub(1, attention), -1e9);
  return tf.minimum(tf.reshape(padding, [batch, 1, 1, length]), tf.tensor4d(later, [1, 1, length, length]));
}

/** Draws the initial parameters: fan-in scaled normals, ones for gains, zeros for biases and for the head. */
function initialise(config: NetworkConfig, random: Random): Parameters {
  const { vocabulary, length, width, layers, outputs } = config;
  const parameters = new Map<string, tf.Variable>();
  const add = (name: string, shape: number[], draw: () => number): void => {
    const size = shape.reduce((product, side) => product * side, 1);
    const values = Float32Array.from({ length: size }, draw);
    const initial = tf.tensor(values, shape);
    parameters.set(name, tf.variable(initial));
    initial.dispose();
  };
  const normal = (scale: number) => (): number => scale * random.normal();
  const zero = (): number => 0;
  const one = (): number => 1;
  add('token', [vocabulary, width], normal(0.5));
  add('place', [length, width], normal(0.5));
  for (let layer = 0; layer < layers; layer += 1) {
    const name = `layer${layer}`;
    add(`${name}.before`, [width], one);
    for (const part of ['query', 'key', 'value'])
      add(`${name}.${part}`, [width, width], normal(Math.sqrt(1 / width)));
    add(`${name}.join`, [width, width], normal(Math.sqrt(1 / (width * 2 * layers))));
    add(`${name}.between`, [width], one);
    add(`${name}.up`, [width, 2 * width], normal(Math.sqrt(2 / width)));
    add(`${name}.up.bias`, [2 * width], zero);
    add(`${name}.down`, [2 * width, width], normal(Math.sqrt(1 / (2 * width * 2 * layers))));
    add(`${name}.down.bias`, [width], zero);
  }
  add('last', [width], one);
  // A head of zeros starts the actor at the uniform distribution and the critic at 0.
  add('head', [width, outputs], zero);
  add('head.bias', [outputs], zero);
  return parameters;
}
