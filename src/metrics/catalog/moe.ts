/** Catalogue: how a mixture of experts is loaded. */
import { type CatalogEntry, type FamilyEntry, type MetricReduction, ofFamily } from './entry.js';

const LOAD =
  'c·E / Σc − 1 of the c tokens of response_mask that an expert got, of E experts; the last token of a row went to none';

/** The violations of one layer and over layers, for one way to look at the experts of a layer. */
function violations(name: 'max' | 'min' | 'avg', formula: string): FamilyEntry[] {
  const shared = {
    unit: '1',
    range: {
      low: name === 'avg' ? 0 : -1,
      ...(name === 'min' && { high: 0 }),
      ...(name === 'max' && { low: 0 }),
    },
    formula,
  };
  const ofExperts: MetricReduction = name === 'avg' ? 'mean' : name;
  const overLayers = (key: 'max' | 'avg', reduction: MetricReduction): FamilyEntry => ({
    ...shared,
    key: `rollout/moe/${name}_vio/${key}`,
    population: `${name}_vio of all layers`,
    reduction,
  });
  return [
    {
      ...shared,
      key: `rollout/moe/${name}_vio/layer_{layer}`,
      placeholders: { layer: 'number' },
      population: 'experts of the layer',
      reduction: ofExperts,
    },
    overLayers('max', 'max'),
    overLayers('avg', 'mean'),
  ];
}

export const moeEntries: readonly CatalogEntry[] = ofFamily(
  'moe',
  'verl, trainer/ppo/metric_utils.py (2026)',
  [...violations('max', LOAD), ...violations('min', LOAD), ...violations('avg', `|${LOAD}|`)],
);
