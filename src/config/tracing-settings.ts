import { z } from 'zod'
import { choice, integer, parsed, type Settings, secret } from './settings.ts'

const SAMPLERS = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const

const endpoint = parsed(
  (text) => (isHttpUrl(text) ? text : undefined),
  'must be a URL such as http://collector:4318',
).optional()

const headers = secret(
  parsed(parsePairs, 'must be pairs such as name=value,other=value, with values percent-encoded'),
).optional()

const compression = choice(['none', 'gzip']).optional()
const protocol = choice(['http/json']).optional()
const timeout = integer(1, 600_000, '1 to 600000 milliseconds').optional()
const spans = integer(1, 100_000, '1 to 100000 spans')
const milliseconds = integer(1, 600_000, '1 to 600000 milliseconds')
const file = z.string().optional()

/** The supported settings of OpenTelemetry. Without an endpoint nothing is traced. */
const TRACING_FIELDS = {
  OTEL_SDK_DISABLED: z
    .string()
    .toLowerCase()
    .pipe(z.enum(['true', 'false'], 'must be true or false'))
    .optional(),
  OTEL_TRACES_EXPORTER: choice(['otlp', 'none']).default('otlp'),
  OTEL_SERVICE_NAME: z.string().max(255, 'must have at most 255 characters').optional(),
  OTEL_RESOURCE_ATTRIBUTES: parsed(
    parsePairs,
    'must be pairs such as deployment.environment.name=live,team=payments, with values percent-encoded',
  ).optional(),
  OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: endpoint,
  OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: protocol,
  OTEL_EXPORTER_OTLP_HEADERS: headers,
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: headers,
  OTEL_EXPORTER_OTLP_TIMEOUT: timeout,
  OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: timeout,
  OTEL_EXPORTER_OTLP_COMPRESSION: compression,
  OTEL_EXPORTER_OTLP_TRACES_COMPRESSION: compression,
  OTEL_EXPORTER_OTLP_CERTIFICATE: file,
  OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE: file,
  OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: file,
  OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE: file,
  OTEL_EXPORTER_OTLP_CLIENT_KEY: file,
  OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY: file,
  OTEL_TRACES_SAMPLER: choice(SAMPLERS).default('parentbased_always_on'),
  OTEL_TRACES_SAMPLER_ARG: parsed(parseRatio, 'must be a number from 0 to 1').optional(),
  OTEL_BSP_SCHEDULE_DELAY: milliseconds.default(5_000),
  OTEL_BSP_EXPORT_TIMEOUT: milliseconds.default(30_000),
  OTEL_BSP_MAX_QUEUE_SIZE: spans.default(2_048),
  OTEL_BSP_MAX_EXPORT_BATCH_SIZE: spans.default(512),
}

/** A separate group of settings, whose names and rules are those of OpenTelemetry. */
export const TRACING_SETTINGS = z.object(TRACING_FIELDS).superRefine((given, { addIssue }) => {
  const { OTEL_BSP_MAX_EXPORT_BATCH_SIZE: batch, OTEL_BSP_MAX_QUEUE_SIZE: queue } = given
  if (batch <= queue) return
  const message = `must be at most OTEL_BSP_MAX_QUEUE_SIZE, which is ${queue}`
  addIssue({ code: 'custom', path: ['OTEL_BSP_MAX_EXPORT_BATCH_SIZE'], message })
})

/** The settings of the export and sampling of spans. */
export type TracingConfig = NonNullable<ReturnType<typeof readTracing>>

/** @returns undefined: nothing is traced */
export function readTracing(given: Settings<typeof TRACING_SETTINGS>) {
  const base = given.otelExporterOtlpEndpoint
  const url =
    given.otelExporterOtlpTracesEndpoint ?? (base && `${base.replace(/\/$/, '')}/v1/traces`)
  const isOff = given.otelSdkDisabled === 'true' || given.otelTracesExporter === 'none'
  if (url === undefined || isOff) return undefined
  const { otelServiceName, otelResourceAttributes = {} } = given
  return {
    url,
    headers: { ...given.otelExporterOtlpHeaders, ...given.otelExporterOtlpTracesHeaders },
    /** The time-out of one export with its retries. */
    timeoutMs: given.otelExporterOtlpTracesTimeout ?? given.otelExporterOtlpTimeout ?? 10_000,
    compression:
      given.otelExporterOtlpTracesCompression ?? given.otelExporterOtlpCompression ?? 'none',
    /** PEM files: the certificate authority of the collector, and a client certificate. */
    caFile: given.otelExporterOtlpTracesCertificate ?? given.otelExporterOtlpCertificate,
    certFile:
      given.otelExporterOtlpTracesClientCertificate ?? given.otelExporterOtlpClientCertificate,
    keyFile: given.otelExporterOtlpTracesClientKey ?? given.otelExporterOtlpClientKey,
    sampler: readSampler(given.otelTracesSampler, given.otelTracesSamplerArg),
    /** Attributes of every span about this service. */
    resource: {
      'service.name': 'inflow',
      ...otelResourceAttributes,
      ...(otelServiceName !== undefined && { 'service.name': otelServiceName }),
    },
    /** The most ended spans that wait for export; further spans are dropped. */
    queueMax: given.otelBspMaxQueueSize,
    batchMax: given.otelBspMaxExportBatchSize,
    delayMs: given.otelBspScheduleDelay,
    exportTimeoutMs: given.otelBspExportTimeout,
  }
}

/** Whether the sampling decision of a caller is used, if there is one; and the fraction of traces that is recorded. */
function readSampler(name: (typeof SAMPLERS)[number], ratio = 1) {
  const isParentBased = name.startsWith('parentbased_')
  if (name.endsWith('always_on')) return { isParentBased, ratio: 1 }
  return { isParentBased, ratio: name.endsWith('always_off') ? 0 : ratio }
}

function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)
}

/** A token of RFC 9110, or a name of OpenTelemetry, which is narrower. */
const NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,255}$/
const VALUE = /^[\x20-\x7e]{0,4096}$/

/** Parses `name=value,other=value` with percent-encoded values, as in W3C Baggage and OpenTelemetry. */
function parsePairs(text: string): Readonly<Record<string, string>> | undefined {
  const pairs: Record<string, string> = {}
  for (const part of text.split(',')) {
    const at = part.indexOf('=')
    const name = part.slice(0, Math.max(at, 0)).trim()
    const value = decode(part.slice(at + 1).trim())
    if (!NAME.test(name) || value === undefined || !VALUE.test(value)) return undefined
    pairs[name] = value
  }
  return pairs
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

function parseRatio(text: string): number | undefined {
  const ratio = /^(\d+(\.\d*)?|\.\d+)$/.test(text) ? Number(text) : Number.NaN
  return ratio >= 0 && ratio <= 1 ? ratio : undefined
}
