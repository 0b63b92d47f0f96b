import type { PendingEndpoint } from './claim-deliveries.ts'

/**
 * Serves endpoints in the order of their ids, round robin. Endpoints with pending deliveries are
 * read in pages; usually all fit into one page.
 */
export interface RoundRobin {
  /** The next page starts after this endpoint; '' for the first page. */
  after(): string
  /** Sorts a page so that the endpoints after the one served last come first. */
  order(page: readonly PendingEndpoint[]): PendingEndpoint[]
  /**
   * Moves to the next page.
   *
   * @param served the last endpoint for which a delivery was claimed; undefined if there is none
   * @returns whether to read the next page now: a full round without a claim ends the work
   */
  advance(page: readonly PendingEndpoint[], served: string | undefined): boolean
}

/** @param pageMax the size of a full page; a smaller page is the last of the round */
export function createRoundRobin(pageMax: number): RoundRobin {
  let pageAfter = ''
  let lastServed = ''
  let servedInRound = false
  return {
    after: () => pageAfter,
    order(page) {
      const later = page.filter(({ id }) => id > lastServed)
      return [...later, ...page.slice(0, page.length - later.length)]
    },
    advance(page, served) {
      if (served !== undefined) {
        lastServed = served
        servedInRound = true
      }
      const last = page.length < pageMax ? undefined : page.at(-1)?.id
      // With a single page, the rest is claimed when an endpoint has capacity for it.
      const again = last !== undefined || (pageAfter !== '' && servedInRound)
      if (last === undefined) servedInRound = false
      pageAfter = last ?? ''
      return again
    },
  }
}
