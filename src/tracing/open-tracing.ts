import type { Logger } from 'pino'
import type { TracingConfig } from '../config/tracing-settings.ts'
import type { Tracing } from './tracing.ts'

/**
 * Starts tracing, if the settings ask for it. The SDK is loaded only then: that takes a tenth of a second.
 *
 * @throws Error that names the setting of a file that cannot be read
 */
export async function openTracing(
  config: TracingConfig | undefined,
  log: Logger,
): Promise<Tracing | undefined> {
  if (config === undefined) return undefined
  const { createOtlpTracing } = await import('./otlp/otlp-tracing.ts')
  return createOtlpTracing(config, log)
}
