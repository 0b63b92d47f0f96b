import { DAY_MS } from '../../core/durations.ts'
import type { Encrypter } from '../../crypto/encryption.ts'
import type { Runtime } from '../../postgres/runtime.ts'
import type { UrlRules } from '../sender/address-guard.ts'

/** Why an endpoint is disabled: see the diagram of EndpointStatus in endpoint.proto. */
export type DisabledReason = 'REQUESTED' | 'GONE' | 'FAILING'

/** The format and signature of requests: see EndpointProfile in endpoint.proto. */
export type EndpointProfile = 'STANDARD' | 'WIAXY'

/** A signature of earlier receivers: see LegacySignature in endpoint.proto. */
export type LegacySignature = 'MD5' | 'HMAC_BODY'

/** The format and signature of the requests to an endpoint. */
export interface RequestFormat {
  /** Null: the headers of both profiles, for an endpoint that was created before there were profiles. */
  readonly profile: EndpointProfile | null
  readonly legacySignature: LegacySignature | null
  /** The name of PAYMENT_NOTIFICATION in the body; null: PAYMENT_NOTIFICATION. */
  readonly eventName: string | null
  readonly payerAsArray: boolean
}

/** The event kinds about an endpoint itself. */
export type EndpointEventKind = 'ENDPOINT_FAILING' | 'ENDPOINT_DISABLED' | 'ENDPOINT_TEST'

/** The default for concurrent requests to an endpoint. */
export const CONCURRENCY_DEFAULT = 10

/** The most endpoints of a business and mode. This bounds the deliveries of one event. */
export const ENDPOINTS_MAX = 50

/** The most endpoints of a business with its deleted ones, whose rows stay while their deliveries are kept. */
export const WITH_DELETED_MAX = 1_000

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

/** The dependencies of the endpoint and delivery use cases. */
export interface EndpointContext extends Runtime {
  readonly encrypter: Encrypter
  readonly rules: UrlRules
  /** Called when deliveries have become due. */
  readonly onDue: () => void
}
