import type { Clock } from './clock.ts'

/** How long a credential is trusted without asking anew: a revoked one is refused within this. */
const TRUST_MS = 800

/** How many credentials are remembered. */
const REMEMBERED_MAX = 10_000

/** Whom a credential was found to be of. */
export interface Found<Who> {
  readonly who: Who
  /** Milliseconds since the Unix epoch; undefined: it does not expire. */
  readonly expiresAtMs: number | undefined
}

/**
 * Whom a credential is of, by a digest of it: what was found less than a second ago, or what `find`
 * finds now. Calls that need the same answer at the same time ask once.
 */
export type Trust<Who> = (
  digest: string,
  find: () => Promise<Found<Who> | undefined>,
) => Promise<Who | undefined>

export function createTrust<Who>(clock: Clock): Trust<Who> {
  const remembered = new Map<string, { readonly who: Who; readonly untilMs: number }>()
  const asking = new Map<
    string,
    { readonly answer: Promise<Who | undefined>; readonly untilMs: number }
  >()
  const ask = async (
    digest: string,
    find: () => Promise<Found<Who> | undefined>,
    askedMs: number,
  ): Promise<Who | undefined> => {
    const found = await find()
    if (found === undefined) return undefined
    const expiresAtMs = found.expiresAtMs ?? Number.POSITIVE_INFINITY
    if (expiresAtMs <= askedMs) return undefined
    if (remembered.size >= REMEMBERED_MAX) remembered.clear()
    // From the question on, not from the answer: a revocation in between has not been seen.
    const untilMs = Math.min(askedMs + TRUST_MS, expiresAtMs)
    remembered.set(digest, { who: found.who, untilMs })
    return found.who
  }
  return async (digest, find) => {
    const nowMs = clock.now()
    const known = remembered.get(digest)
    if (known !== undefined && nowMs < known.untilMs) return known.who
    remembered.delete(digest)
    const underWay = asking.get(digest)
    if (underWay !== undefined && nowMs < underWay.untilMs) return underWay.answer
    const answer = ask(digest, find, nowMs)
    const mine = { answer, untilMs: nowMs + TRUST_MS }
    asking.set(digest, mine)
    try {
      return await answer
    } finally {
      if (asking.get(digest) === mine) asking.delete(digest)
    }
  }
}
