const DAY_MS = 86_400_000

/** Why an endpoint is disabled: see the diagram of EndpointStatus in endpoint.proto. */
export type DisabledReason = 'REQUESTED' | 'GONE' | 'FAILING'

/** The kinds of events about an endpoint itself. */
export type EndpointEventKind = 'ENDPOINT_FAILING' | 'ENDPOINT_DISABLED' | 'ENDPOINT_TEST'

/** How many requests an endpoint gets at once when the caller does not say. */
export const CONCURRENCY_DEFAULT = 10

/** A bound on what one event can cause. */
export const ENDPOINTS_MAX = 50

/** How long an endpoint has been failing when ENDPOINT_FAILING tells of it. */
const WARN_AFTER_MS = DAY_MS

/** How long an endpoint has been failing when it is disabled. */
const DISABLE_AFTER_MS = 5 * DAY_MS

/** It is told at least so long before, also when the service itself was away meanwhile. */
const NOTICE_MS = DAY_MS

/** How an endpoint has been doing. Times in milliseconds since the Unix epoch. */
export interface Health {
  /** Of the first failure since the last success; undefined when it does well. */
  readonly failingSinceMs: number | undefined
  /** When ENDPOINT_FAILING told of it. */
  readonly warnedAtMs: number | undefined
}

/**
 * What becomes of an endpoint that an attempt has just failed at. Only failed attempts are judged,
 * so that an endpoint that nothing was sent to is never disabled for that.
 */
export function judge(health: Health, nowMs: number): 'keep' | 'warn' | 'disable' {
  const { failingSinceMs = nowMs, warnedAtMs } = health
  const failingMs = nowMs - failingSinceMs
  if (warnedAtMs === undefined) return failingMs >= WARN_AFTER_MS ? 'warn' : 'keep'
  return failingMs >= DISABLE_AFTER_MS && nowMs - warnedAtMs >= NOTICE_MS ? 'disable' : 'keep'
}
