/** Whose turn it is: endpoints take turns in the order of their ids, round and round. */
export interface Rotation {
  /** Where the next walk over the endpoints begins: after this one; '' at the first. */
  after(): string
  /** Something was claimed; this endpoint was the last. */
  served(endpointId: string): void
  /**
   * A walk found nothing to claim.
   *
   * @returns whether to go on walking: one whole round without a claim ends the work
   */
  unserved(walked: readonly string[]): boolean
}

/** @param walkMax how many endpoints one walk looks at; one of fewer has come to the end */
export function createRotation(walkMax: number): Rotation {
  let cursor = ''
  let servedInRound = false
  return {
    after: () => cursor,
    served(endpointId) {
      cursor = endpointId
      servedInRound = true
    },
    unserved(walked) {
      const last = walked.length < walkMax ? undefined : walked.at(-1)
      cursor = last ?? ''
      if (last !== undefined) return true
      const again = servedInRound
      servedInRound = false
      return again
    },
  }
}
