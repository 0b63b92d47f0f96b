import { DAY_MS } from '../../core/durations.ts'
/** Why an endpoint is disabled: see the diagram of EndpointStatus in endpoint.proto. */
export type DisabledReason = 'REQUESTED' | 'GONE' | 'FAILING'

/** How requests look and are signed: see EndpointProfile in endpoint.proto. */
export type EndpointProfile = 'STANDARD' | 'WIAXY'

/** A signature of earlier receivers: see LegacySignature in endpoint.proto. */
export type LegacySignature = 'MD5' | 'HMAC_BODY'

/** How the requests to an endpoint look and are signed: a part of its row. */
export interface RequestFormat {
  /** Null: the headers of both, for an endpoint that was created before there were profiles. */
  readonly profile: EndpointProfile | null
  readonly legacySignature: LegacySignature | null
  /** What the body calls PAYMENT_NOTIFICATION; null: just that. */
  readonly eventName: string | null
  readonly payerAsArray: boolean
}

/** The event kinds about an endpoint itself. */
export type EndpointEventKind = 'ENDPOINT_FAILING' | 'ENDPOINT_DISABLED' | 'ENDPOINT_TEST'

/** The default for concurrent requests to an endpoint. */
export const CONCURRENCY_DEFAULT = 10

/** Per business and mode: bounds the deliveries that one event can cause. */
export const ENDPOINTS_MAX = 50

/** How long an endpoint has been failing when ENDPOINT_FAILING is recorded. */
const WARN_AFTER_MS = DAY_MS

/** How long an endpoint has been failing when it is disabled. */
const DISABLE_AFTER_MS = 5 * DAY_MS

/** The minimum time from warning to disabling, even if the service was down in between. */
const NOTICE_MS = DAY_MS

/** The health of an endpoint. Times in milliseconds since the Unix epoch. */
export interface Health {
  /** The first failure since the last success; null while it is healthy. */
  readonly failingSinceMs: number | null
  /** When ENDPOINT_FAILING was recorded. */
  readonly warnedAtMs: number | null
}

/**
 * Decides what to do with an endpoint after a failed attempt. It is called for failed attempts
 * only, so an endpoint without traffic is never disabled.
 */
export function judge(
  { failingSinceMs, warnedAtMs }: Health,
  nowMs: number,
): 'keep' | 'warn' | 'disable' {
  const failingMs = nowMs - (failingSinceMs ?? nowMs)
  if (warnedAtMs === null) return failingMs >= WARN_AFTER_MS ? 'warn' : 'keep'
  return failingMs >= DISABLE_AFTER_MS && nowMs - warnedAtMs >= NOTICE_MS ? 'disable' : 'keep'
}
