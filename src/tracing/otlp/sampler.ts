import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace'
import type { TracingConfig } from '../../config/tracing-settings.ts'

/** The sampler that the settings name. Each decides alike for all spans of a trace. */
export function createSampler({ isParentBased, ratio }: TracingConfig['sampler']): Sampler {
  const root = createRoot(ratio)
  return isParentBased ? new ParentBasedSampler({ root }) : root
}

function createRoot(ratio: number): Sampler {
  if (ratio === 1) return new AlwaysOnSampler()
  return ratio === 0 ? new AlwaysOffSampler() : new TraceIdRatioBasedSampler(ratio)
}
