/** The interface between payouts and a bank: name enquiry, transfer, status and float. */

/** An account at any Nigerian institution. */
export interface TransferAccount {
  /** The six-digit NIP code of the institution. */
  readonly bankCode: string
  readonly accountNumber: string
}

/**
 * A transfer out of the operator's account. An order is always sent, and looked up, with the same
 * reference.
 */
export interface TransferOrder {
  /** Our reference at the bank: 24 to 30 characters of A–Z and 0–9. */
  readonly reference: string
  /** Kobo. */
  readonly amountMinor: bigint
  readonly beneficiary: TransferAccount & { readonly accountName: string }
  readonly narration: string
  /**
   * The reference of a name enquiry at the same bank; empty if the bank needs none for transfers, or no
   * enquiry was made.
   */
  readonly enquiryReference: string
  /** The earliest time at which the transfer may have been sent, for connectors that search the bank's list. */
  readonly searchFromMs: number
  /** How old the bank's list may be that a connector has read before; absent: it has to be current. */
  readonly listAgeMsMax?: number
  /** The transfer may never have been sent: the database was restored or failed over. */
  readonly mayBeUnsent?: boolean
}

export type NameEnquiry =
  | { readonly kind: 'found'; readonly accountName: string; readonly enquiryReference: string }
  /** The institution has no such account. */
  | { readonly kind: 'not found'; readonly cause: string }
  | { readonly kind: 'unavailable'; readonly cause: string; readonly refusal?: 'access' }

/** The known state of a transfer. A state is final only if the bank states it clearly. */
export type TransferState =
  /** `sessionId` is the interbank id; empty if the bank gives none. */
  | { readonly kind: 'paid'; readonly sessionId: string }
  /** The bank did not move the money and will not. */
  | {
      readonly kind: 'failed'
      readonly cause: string
      readonly reason: 'insufficient_float' | 'beneficiary_rejected' | 'bank_rejected'
    }
  /** The bank has accepted the transfer and not finished it. */
  | { readonly kind: 'pending'; readonly cause: string }
  /** The bank paid the transfer, and the beneficiary's bank sent the money back. */
  | { readonly kind: 'returned'; readonly cause: string }
  /**
   * No usable response: a timeout, a broken connection, a 5xx, an unreadable response, or a response about
   * another reference, amount or account than ours.
   */
  | {
      readonly kind: 'unknown'
      readonly cause: string
      readonly refusal?: 'access'
      /** The connector is reading the bank's list, and has the result soon. */
      readonly isReading?: true
    }

export type SendResult =
  | TransferState
  /**
   * The transfer was certainly not sent: the breaker is open, the connection failed, or the bank issued no
   * access token.
   */
  | { readonly kind: 'not sent'; readonly cause: string; readonly refusal?: 'access' }

export type FoundTransfer =
  | TransferState
  /** `ageMs`: how long ago the bank's list was read that lacks the transfer; absent: the bank states it now. */
  | { readonly kind: 'not found'; readonly cause: string; readonly ageMs?: number }

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

/** Transfers through one bank. Every failure of the bank is a result; methods throw only for our own defects. */
export interface TransferConnector {
  enquireName(account: TransferAccount, signal: AbortSignal): Promise<NameEnquiry>
  send(order: TransferOrder, signal: AbortSignal): Promise<SendResult>
  find(order: TransferOrder, signal: AbortSignal): Promise<FoundTransfer>
  /** Absent if the bank has no such call. */
  readonly readFloat?: (signal: AbortSignal) => Promise<FloatReading>
  /** Absent if the bank cannot list transfers. */
  readonly listTransfers?: (
    period: {
      readonly fromMs: number
      readonly toMs: number
      readonly page: string | undefined
    },
    signal: AbortSignal,
  ) => Promise<{ readonly lines: readonly OutgoingLine[]; readonly next: string | undefined }>
  /**
   * How long after sending a transfer the answer "not found" proves nothing, in milliseconds. Each
   * connector states its source for this, or marks it as a guess.
   */
  readonly consistencyMs: number
}
