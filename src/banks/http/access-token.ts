import type { Clock } from '../../core/clock.ts'

/** A token issued by a bank. */
export interface IssuedToken {
  readonly token: string
  readonly expiresInSeconds: number
}

interface AccessTokenOptions {
  /** Requests a token from the bank; an error rejects every caller that waits for it. */
  readonly fetch: (signal: AbortSignal) => Promise<IssuedToken>
  readonly clock: Clock
  /** How long before its expiry a token is replaced, because calls in progress still use it. */
  readonly marginSeconds: number
  /** The timeout of a fetch; default 10 s. */
  readonly timeoutMs?: number
}

/** The access token of a bank's API. */
interface AccessToken {
  /** Returns the current token; concurrent callers share one fetch. */
  get(): Promise<string>
  /** Returns a token other than `stale`, which the bank rejected; callers share one fetch. */
  renew(stale: string): Promise<string>
}

/**
 * Caches a bank's token until shortly before it expires. Failures are not cached: the next caller
 * fetches again. Callers share a fetch, so the fetch has its own time-out and ignores their signals: a
 * caller that gives up does not cancel it for other callers.
 */
export function createAccessToken(options: AccessTokenOptions): AccessToken {
  const { fetch, clock, marginSeconds, timeoutMs = 10_000 } = options
  let current: { readonly token: string; readonly expiresAtMs: number } | undefined
  let inProgress: Promise<string> | undefined
  const fetchToken = async (): Promise<string> => {
    try {
      const { token, expiresInSeconds } = await fetch(AbortSignal.timeout(timeoutMs))
      // A token whose lifetime is below the margin is used for half of its lifetime, and not fetched for each call.
      const lifetimeSeconds = Math.max(expiresInSeconds - marginSeconds, expiresInSeconds / 2)
      current = { token, expiresAtMs: clock.now() + lifetimeSeconds * 1_000 }
      return token
    } finally {
      inProgress = undefined
    }
  }
  const get = (): Promise<string> => {
    if (current && clock.now() < current.expiresAtMs) return Promise.resolve(current.token)
    inProgress ??= fetchToken()
    return inProgress
  }
  return {
    get,
    renew(stale) {
      if (current?.token === stale) current = undefined
      return get()
    },
  }
}
