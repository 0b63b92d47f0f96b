import { withTimeout } from '../../core/with-timeout.ts'
import type { OpenAtBank, OpeningOutcome } from './open-at-bank.ts'

/** How long the outcome of an opening may take to be stored after its request ended. */
const STORE_MS = 2_000

/** An opening goes on when its caller has stopped waiting, so a service that stops waits for it. */
export function trackOpenings(open: OpenAtBank) {
  const inProgress = new Set<Promise<OpeningOutcome>>()
  const openAtBank: OpenAtBank = (request) => {
    const opening = open(request).finally(() => inProgress.delete(opening))
    inProgress.add(opening)
    return opening
  }
  return {
    openAtBank,
    /** Resolves when no opening is in progress, or after 2 s. */
    ended: async () => void (await withTimeout(Promise.allSettled([...inProgress]), STORE_MS)),
  }
}
