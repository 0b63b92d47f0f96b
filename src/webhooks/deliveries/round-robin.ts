import type { PendingEndpoint } from './claim-deliveries.ts'

/**
 * Whose turn it is: endpoints take turns in the order of their ids, round and round. A walk over
 * those with something pending looks at a window of them; few enough fit into one window.
 */
export interface RoundRobin {
  /** Where the next walk begins: after this endpoint; '' at the first. */
  after(): string
  /** Puts those first that were not served last. */
  inTurn(walked: readonly PendingEndpoint[]): PendingEndpoint[]
  /**
   * A turn is over.
   *
   * @param served the last endpoint that something was claimed for; undefined when nothing was
   * @returns whether to walk on at once: one whole round without a claim ends the work
   */
  ended(walked: readonly PendingEndpoint[], served: string | undefined): boolean
}

/** @param walkMax how many endpoints one walk looks at; one of fewer has come to the end */
export function createRoundRobin(walkMax: number): RoundRobin {
  let windowAfter = ''
  let lastServed = ''
  let servedInRound = false
  return {
    after: () => windowAfter,
    inTurn(walked) {
      const later = walked.filter(({ id }) => id > lastServed)
      return [...later, ...walked.slice(0, walked.length - later.length)]
    },
    ended(walked, served) {
      if (served !== undefined) {
        lastServed = served
        servedInRound = true
      }
      const last = walked.length < walkMax ? undefined : walked.at(-1)?.id
      // One window alone: what else is due is claimed when somebody has room for it.
      const again = last !== undefined || (windowAfter !== '' && servedInRound)
      if (last === undefined) servedInRound = false
      windowAfter = last ?? ''
      return again
    },
  }
}
