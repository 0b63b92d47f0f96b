import type { Clock } from '../../core/clock.ts'

/** A token as a bank issues it. */
export interface IssuedToken {
  readonly token: string
  readonly expiresInSeconds: number
}

export interface AccessTokenOptions {
  /** Asks the bank for a token; what it throws reaches everybody who waits for this token. */
  readonly fetch: (signal: AbortSignal) => Promise<IssuedToken>
  readonly clock: Clock
  /** How long before its end a token is taken for ended: calls under way still use it. */
  readonly marginSeconds: number
  /** How long a fetch may take; 10 s unless told. */
  readonly timeoutMs?: number
}

/** The token of a bank's calls. */
export interface AccessToken {
  /** The current token; fetched once for all who ask while there is none. */
  get(): Promise<string>
  /** A token other than `stale`, which the bank has refused: fetched once for all who had it. */
  renew(stale: string): Promise<string>
}

/**
 * Keeps a bank's token until shortly before its end. Failures are not kept: the next caller asks
 * again. A fetch belongs to nobody in particular, and so has its own limit of time: a caller who
 * gives up does not take the token from the others.
 */
export function createAccessToken(options: AccessTokenOptions): AccessToken {
  const { fetch, clock, marginSeconds, timeoutMs = 10_000 } = options
  let current: { readonly token: string; readonly goodUntilMs: number } | undefined
  let underWay: Promise<string> | undefined
  const renewed = async (): Promise<string> => {
    try {
      const { token, expiresInSeconds } = await fetch(AbortSignal.timeout(timeoutMs))
      // A token that lives shorter than the margin is used for half its life, not fetched each time.
      const lifeSeconds = Math.max(expiresInSeconds - marginSeconds, expiresInSeconds / 2)
      current = { token, goodUntilMs: clock.now() + lifeSeconds * 1_000 }
      return token
    } finally {
      underWay = undefined
    }
  }
  const get = (): Promise<string> => {
    if (current && clock.now() < current.goodUntilMs) return Promise.resolve(current.token)
    underWay ??= renewed()
    return underWay
  }
  return {
    get,
    renew(stale) {
      if (current?.token === stale) current = undefined
      return get()
    },
  }
}
