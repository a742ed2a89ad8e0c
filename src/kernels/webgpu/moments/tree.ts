/**
 * How the invocations of a workgroup merge their accumulators: the frame of every moments shader.
 *
 * A power-of-two number of neighbouring invocations, the lanes, share a unit of work. They merge in a fixed order, so
 * equal inputs give equal bits: by shuffles within subgroups where the device has them, then through workgroup memory,
 * eight accumulators to an invocation and all channels at once, since barriers are what costs.
 */
import { MEMBERS, RECORD_WORDS } from './accumulator.js';

/** Invocations per workgroup: two warps of a GPU. A CPU that plays a GPU gets slow with more, barriers above all. */
export const WORKGROUP = 64;

/** Accumulators that one invocation merges between two barriers. */
const FAN = 8;

/** What the frame depends on. */
export interface Team {
  /** Accumulators per invocation: `acc0`, `acc1`, …, or the array `accs` if there are many. */
  readonly channels: number;
  readonly lanes: number;
  /** Invocations per subgroup, if shaders may use subgroups of at most a workgroup. */
  readonly subgroups: { readonly min: number } | undefined;
  /** Bytes of workgroup memory. */
  readonly memory: number;
}

/**
 * Channels whose code is written out, so that their accumulators are registers. More would take shader compilers
 * seconds (each is two hundred lines once everything is inlined), and spill anyway; those are looped over.
 */
const MAX_WRITTEN_OUT = 4;

export function isLooped({ channels }: Pick<Team, 'channels'>): boolean {
  return channels > MAX_WRITTEN_OUT;
}

/** `line` for the accumulator of every channel from `first` to before `end`; it may also use the number `c`. */
function eachChannel(
  team: Team,
  first: number,
  end: number,
  line: (acc: string, c: string) => string,
): string {
  if (isLooped(team)) return `  for (var c = ${first}u; c < ${end}u; c++) {\n${line('accs[c]', 'c')}\n  }`;
  return Array.from({ length: end - first }, (_, i) => line(`acc${first + i}`, `${first + i}u`)).join('\n');
}

/** Fewest accumulators that one shuffle stage leaves as one. */
function shuffled({ lanes, subgroups }: Team): number {
  return subgroups === undefined ? 1 : Math.min(lanes, subgroups.min);
}

/** Places for accumulators in workgroup memory, per channel. */
function slotsOf(team: Team): number {
  return WORKGROUP / shuffled(team);
}

/** Channels that merge at once. */
function batchOf(team: Team): number {
  const fitting = Math.floor(team.memory / (slotsOf(team) * RECORD_WORDS * 4));
  return Math.max(1, Math.min(team.channels, fitting));
}

/** Directives, which come first in a shader. */
export function directivesText({ subgroups }: Team): string {
  return subgroups === undefined ? '' : 'enable subgroups;\nrequires subgroup_id;\n';
}

/**
 * `main` around `body`, which takes `unit`, `lane` and `live` (whether the unit exists) and leaves `acc0`, `acc1`, …
 * The record of channel c of a unit is written to `records[c * uniforms.units + unit]`.
 */
export function mainText(team: Team, body: string): string {
  const { lanes, subgroups } = team;
  const ids =
    subgroups === undefined
      ? '@builtin(local_invocation_index) thread: u32'
      : `@builtin(subgroup_id) subgroup: u32,
  @builtin(subgroup_size) width: u32,
  @builtin(subgroup_invocation_id) seat: u32`;
  return `
const WORKGROUP = ${WORKGROUP}u;
const LANES = ${lanes}u;
${sharedText(team)}
@compute @workgroup_size(${WORKGROUP})
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  ${ids}
) {
${subgroups === undefined ? '' : '  let thread = subgroup * width + seat; // neighbours in a subgroup are neighbours here\n'}\
  let lane = thread % LANES;
  let firstUnit = (group.y * groups.x + group.x) * (WORKGROUP / LANES);
  let unit = firstUnit + thread / LANES;
  let live = unit < uniforms.units;
${body}
${joinText(team)}
}`;
}

function needsMemory(team: Team): boolean {
  return team.lanes > shuffled(team);
}

function sharedText(team: Team): string {
  const members = MEMBERS.map((name) => (name === 'kind' ? 'a.kind' : `subgroupShuffleDown(a.${name}, d)`));
  return `${
    needsMemory(team)
      ? `const SLOTS = ${slotsOf(team)}u;
var<workgroup> shared_: array<Moments, ${batchOf(team) * slotsOf(team)}>;`
      : ''
  }${
    shuffled(team) > 1
      ? `
fn below(a: Moments, d: u32) -> Moments {
  return Moments(${members.join(', ')});
}`
      : ''
  }`;
}

function joinText(team: Team): string {
  const { channels } = team;
  const shuffle =
    shuffled(team) > 1
      ? `
  let together = min(LANES, width);
${eachChannel(
  team,
  0,
  channels,
  (acc) => `    for (var d = together / 2u; d > 0u; d /= 2u) { ${acc} = merge(${acc}, below(${acc}, d)); }`,
)}`
      : '\n  let together = 1u;';
  if (!needsMemory(team)) {
    return `${shuffle}
  if (live && thread % together == 0u) {
${eachChannel(team, 0, channels, (acc, c) => `    records[${c} * uniforms.units + unit] = ${acc};`)}
  }`;
  }
  const batch = batchOf(team);
  const starts = Array.from({ length: Math.ceil(channels / batch) }, (_, i) => i * batch);
  return `${shuffle}
  let parts = LANES / together;
${starts
  .map((first) => batchText(team, first, Math.min(batch, channels - first)))
  .join('\n  workgroupBarrier();\n')}`;
}

/** Merges and writes `count` channels from `first` on. */
function batchText(team: Team, first: number, count: number): string {
  const store = (acc: string, c: string): string =>
    `    shared_[(${c} - ${first}u) * SLOTS + thread / together] = ${acc};`;
  return `
  if (thread % together == 0u) {
${eachChannel(team, first, first + count, store)}
  }
  workgroupBarrier();
  for (var step = 1u; step < parts;) {
    let reach = min(step * ${FAN}u, parts);
    let perChannel = (WORKGROUP / together) / reach;
    for (var task = thread; task < perChannel * ${count}u; task += WORKGROUP) {
      let at = (task / perChannel) * SLOTS + (task % perChannel) * reach;
      var joined = shared_[at];
      for (var next = step; next < reach; next += step) { joined = merge(joined, shared_[at + next]); }
      shared_[at] = joined;
    }
    step = reach;
    workgroupBarrier();
  }
  for (var task = thread; task < (WORKGROUP / LANES) * ${count}u; task += WORKGROUP) {
    let which = task % (WORKGROUP / LANES);
    if (firstUnit + which < uniforms.units) {
      let channel = task / (WORKGROUP / LANES);
      records[(${first}u + channel) * uniforms.units + firstUnit + which] = shared_[channel * SLOTS + which * parts];
    }
  }`;
}
