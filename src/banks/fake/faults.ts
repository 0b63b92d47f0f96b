import type { BookedTransfer, TransferBook, TransferFault } from './transfer-book.ts'

/** How a fake bank fails one request; with `after`, it executes the request first. */
export const SERVER_FAULTS = [
  /** Never responds. */
  'hang',
  'hang after',
  /** Closes the connection. */
  'cut',
  'cut after',
  /** HTTP 500 with an HTML page. */
  '500',
  '500 after',
  /** HTTP 200 with an HTML page, as a proxy might send. */
  'page',
  'page after',
] as const

export type ServerFault = (typeof SERVER_FAULTS)[number]

/** Injected faults by operation, first in first out. */
export interface Faults<Operation extends string, Fault extends string> {
  /** Makes the next `times` requests of the operation fail. */
  add(operation: Operation, fault: Fault, times?: number): void
  clear(): void
}

/** The wrong responses of a fake bank. */
type Untruth =
  | 'insufficient'
  | 'rejected'
  | 'not found'
  | 'wrong name'
  | 'other account'
  /** It does not accept the credentials. */
  | 'denied'
  /** A response code that no document has. */
  | 'odd code'

/** The faults of a transfer service. */
export type TransferServiceFault = ServerFault | TransferFault | Untruth

/** The fault of a request, unless it is one of any server. */
export type RequestFault = TransferFault | Untruth | undefined

/** `account` reads the float. */
export const TRANSFER_OPERATIONS = ['enquire', 'send', 'find', 'account'] as const

/** The transfer as a wrong response describes it. */
export function distort(transfer: BookedTransfer, fault: RequestFault): BookedTransfer {
  if (fault === 'other reference') return { ...transfer, reference: `${transfer.reference}X` }
  if (fault === 'other amount') return { ...transfer, amountMinor: transfer.amountMinor + 1n }
  return fault === 'other account' ? { ...transfer, accountNumber: '9999999999' } : transfer
}

/** The holder's name in the response to a name enquiry; undefined if the account does not exist. */
export function enquiredName(
  book: TransferBook,
  accountNumber: string,
  fault: RequestFault,
): string | undefined {
  if (fault === 'not found') return undefined
  return fault === 'wrong name' ? 'ANOTHER HOLDER' : book.nameOf(accountNumber)
}
