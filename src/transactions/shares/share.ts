/** What a business gets of some payments of another one, or gives back. */
export interface Share {
  /** The recipient. */
  readonly businessId: string
  /** How many payments it is of. */
  readonly count: number
  readonly amountMinor: bigint
}

/** What happened to the shares of an owner's payments. */
export interface ShareChange {
  readonly kind: 'SHARE_SETTLED' | 'SHARE_REVERSED'
  /** The settlement of the owner, or the reversed transaction. */
  readonly subjectId: string
  readonly ownerId: string
  readonly live: boolean
  readonly atMs: number
}
