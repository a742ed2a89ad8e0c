/** The findings as text for a terminal. */
import type { BackendReport } from '../../kernels/index.js';
import type { Diagnosis } from './diagnosis.js';
import type { Examination } from './examination.js';

/** The lines that `tensortally doctor` prints. */
export function describeDiagnosis({ versions, auto, backends, binding }: Diagnosis): string[] {
  const lines = [
    Object.entries(versions)
      .map(([name, version]) => `${name} ${version}`)
      .join(' · '),
    '',
    ...Object.entries(backends).flatMap(([name, examination]) => describeExamination(name, examination)),
    '',
    auto.outcome === 'passed'
      ? `auto chooses ${auto.report.backend} (${auto.report.device}).`
      : `auto finds no backend that works: ${auto.reason}`,
    `TensorFlow binding: ${binding.state}. ${binding.detail}`,
  ];
  if (binding.state !== 'linked') lines.push(`  To do: ${binding.remedy}.`);
  return lines;
}

const verdicts = { passed: 'ok', unavailable: 'cannot run', failed: 'WRONG', crashed: 'CRASHED' } as const;

function describeExamination(name: string, examination: Examination): string[] {
  const { outcome } = examination;
  const heading = `  ${name.padEnd(12)}${verdicts[outcome].padEnd(12)}`;
  if (outcome === 'passed') return [`${heading}${describeReport(examination.report)}`];
  const lines = [`${heading}${examination.reason}`];
  if (outcome === 'unavailable') lines.push(`${' '.repeat(26)}to do: ${examination.remedy}`);
  return lines;
}

function describeReport({ device, driver, isGpu, isSoftware }: BackendReport): string {
  const kind = isGpu ? 'GPU' : isSoftware ? 'a GPU played by the CPU' : 'no GPU';
  return `${device}${driver === undefined ? '' : `, ${driver}`} (${kind}); self-check passed`;
}
