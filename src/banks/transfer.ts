/** What connects payouts to a bank: name enquiry, transfer, status and float. */

/** An account at any Nigerian institution. */
export interface TransferAccount {
  /** The institution's six digits at the interbank switch (NIP). */
  readonly bankCode: string
  readonly accountNumber: string
}

/**
 * A transfer out of the operator's account. The same order is sent, and asked about, with the same
 * reference for life.
 */
export interface TransferOrder {
  /** Our reference at the bank: 24 to 30 characters of A–Z and 0–9. */
  readonly reference: string
  /** Kobo. */
  readonly amountMinor: bigint
  readonly beneficiary: TransferAccount & { readonly accountName: string }
  readonly narration: string
  /**
   * What the same bank's name enquiry returned for its transfers; empty if it needs nothing, or none
   * was made.
   */
  readonly enquiryReference: string
  /** For banks that search their list: since when it may have been sent, if the enquiry does not show it. */
  readonly searchFromMs?: number
}

export type NameEnquiry =
  | { readonly kind: 'found'; readonly accountName: string; readonly enquiryReference: string }
  /** The institution has no such account. */
  | { readonly kind: 'not found'; readonly cause: string }
  | { readonly kind: 'unavailable'; readonly cause: string; readonly refusal?: 'access' }

/** What is known of a transfer. Only what the bank states clearly is final. */
export type TransferState =
  /** `sessionId` is the interbank id; empty if the bank gives none. */
  | { readonly kind: 'paid'; readonly sessionId: string }
  /** The bank did not move the money and will not. */
  | {
      readonly kind: 'failed'
      readonly cause: string
      readonly reason: 'insufficient_float' | 'beneficiary_rejected' | 'bank_rejected'
    }
  /** The bank accepted it and has not finished. */
  | { readonly kind: 'pending'; readonly cause: string }
  /** The bank paid it and the beneficiary's bank sent it back. */
  | { readonly kind: 'returned'; readonly cause: string }
  /**
   * Nothing usable: a timeout, a broken connection, a 5xx, an unreadable response, or one about
   * another reference, amount or account than ours.
   */
  | { readonly kind: 'unknown'; readonly cause: string; readonly refusal?: 'access' }

export type SendResult =
  | TransferState
  /**
   * Certainly nothing was sent to the bank: the breaker is open, no connection was made, no access
   * token was got.
   */
  | { readonly kind: 'not sent'; readonly cause: string; readonly refusal?: 'access' }

export type FoundTransfer = TransferState | { readonly kind: 'not found'; readonly cause: string }

/** The operator's account at the bank. */
export type FloatReading =
  | { readonly kind: 'read'; readonly availableMinor: bigint }
  | { readonly kind: 'unavailable'; readonly cause: string }

/** An outgoing line of the bank's own list. */
export interface OutgoingLine {
  readonly reference: string
  readonly sessionId: string
  readonly amountMinor: bigint
  readonly accountNumber: string
  readonly atMs: number
  readonly state: 'paid' | 'failed' | 'pending' | 'returned'
}

/** Money out at one bank. Every failure of the bank is a result; methods throw only for our own defects. */
export interface TransferConnector {
  enquireName(account: TransferAccount, signal: AbortSignal): Promise<NameEnquiry>
  send(order: TransferOrder, signal: AbortSignal): Promise<SendResult>
  find(order: TransferOrder, signal: AbortSignal): Promise<FoundTransfer>
  /** Absent if the bank has no such call. */
  readonly readFloat?: (signal: AbortSignal) => Promise<FloatReading>
  /** Absent if the bank cannot list them. */
  readonly listTransfers?: (
    period: {
      readonly fromMs: number
      readonly toMs: number
      readonly page: string | undefined
    },
    signal: AbortSignal,
  ) => Promise<{ readonly lines: readonly OutgoingLine[]; readonly next: string | undefined }>
  /**
   * How long "not found" proves nothing after sending, in milliseconds: per bank, with its source or
   * marked as a guess.
   */
  readonly consistencyMs: number
}
