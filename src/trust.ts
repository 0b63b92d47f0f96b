import type { Clock } from './clock.ts'

/** How long a credential is trusted without asking anew: a revoked one is refused within this. */
const TRUST_MS = 800

/** How many credentials each of the two generations remembers. */
const REMEMBERED_MAX = 10_000

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
export type Trust<Who> = (
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
 * and the others for two generations at the most.
 */
export function createTrust<Who>(clock: Clock): Trust<Who> {
  let young = new Map<string, Remembered<Who>>()
  let old = new Map<string, Remembered<Who>>()
  let turnedMs = Number.NEGATIVE_INFINITY
  const asking = new Map<string, Question<Who>>()

  const recall = (credential: string, nowMs: number): Who | undefined => {
    if (!isRecent(turnedMs, nowMs) || young.size >= REMEMBERED_MAX) {
      old = young
      young = new Map()
      turnedMs = nowMs
    }
    const known = young.get(credential) ?? old.get(credential)
    if (known === undefined) return undefined
    if (isRecent(known.askedMs, nowMs) && nowMs < known.untilMs) return known.who
    young.delete(credential)
    old.delete(credential)
    return undefined
  }
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
    young.set(credential, { who: found.who, askedMs, untilMs })
    return found.who
  }
  return (credential, find) => {
    const askedMs = clock.now()
    const known = recall(credential, askedMs)
    if (known !== undefined) return known
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
