import { LRUCache } from 'lru-cache'
import type { Clock } from '../core/clock.ts'

/** How long a credential is trusted without asking anew: a revoked one is refused within this. */
const TRUST_MS = 800

/** How many credentials are remembered. */
const REMEMBERED_MAX = 20_000

/** Whom a credential was found to be of. */
export interface Found<Who> {
  readonly who: Who
  /** Milliseconds since the Unix epoch; undefined: it does not expire. */
  readonly expiresAtMs: number | undefined
}

/**
 * Whom a credential is of: what was found less than a second ago, at once, or what `find` finds
 * now. Calls that need the same answer at the same time ask once.
 */
export type CredentialCache<Who> = (
  credential: string,
  find: () => Promise<Found<Who> | undefined>,
) => Who | undefined | Promise<Who | undefined>

interface Remembered<Who> {
  readonly who: Who
  readonly askedMs: number
  readonly untilMs: number
}

interface Question<Who> {
  readonly answer: Promise<Who | undefined>
  readonly askedMs: number
}

/**
 * Remembers credentials by their text for as long as they are trusted, so that a request costs one
 * look into a map. Hashing the text for each request instead would keep it out of this map, and
 * guard nothing: whoever reads this memory finds the same texts in the requests that brought them.
 * Nor does the time of a look-up tell of a credential: the map compares texts only where their
 * hashes, seeded anew in each process, are equal. Texts that were not proved right are never kept,
 * and the others are purged when their time is over.
 */
export function createCredentialCache<Who>(clock: Clock): CredentialCache<Who> {
  const remembered = new LRUCache<string, Remembered<Who>>({
    max: REMEMBERED_MAX,
    // lru-cache still gives what is exactly as old as this.
    ttl: TRUST_MS - 1,
    ttlAutopurge: true,
    ttlResolution: 0,
    perf: clock,
  })
  const asking = new Map<string, Question<Who>>()

  const ask = async (
    credential: string,
    find: () => Promise<Found<Who> | undefined>,
    askedMs: number,
  ): Promise<Who | undefined> => {
    const found = await find()
    if (found === undefined) return undefined
    const untilMs = found.expiresAtMs ?? Number.POSITIVE_INFINITY
    if (untilMs <= askedMs) return undefined
    // From the question on, not from the answer: a revocation in between has not been seen.
    remembered.set(credential, { who: found.who, askedMs, untilMs }, { start: askedMs })
    return found.who
  }
  return (credential, find) => {
    const askedMs = clock.now()
    const known = remembered.get(credential)
    if (known && known.askedMs <= askedMs && askedMs < known.untilMs) return known.who
    const underWay = asking.get(credential)
    if (underWay !== undefined && isRecent(underWay.askedMs, askedMs)) return underWay.answer
    const answer = ask(credential, find, askedMs).finally(() => {
      if (asking.get(credential)?.answer === answer) asking.delete(credential)
    })
    asking.set(credential, { answer, askedMs })
    return answer
  }
}

/** Whether a time is less than the trust ago. A clock that was set back must not prolong that. */
function isRecent(thenMs: number, nowMs: number): boolean {
  return thenMs <= nowMs && nowMs < thenMs + TRUST_MS
}
