import type { ServerFault } from './faults.ts'
import type { BookedTransfer, TransferBook, TransferFault } from './transfer-book.ts'

/** What a fake bank says instead of the truth. */
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

/** The holder's name as a response to an enquiry has it; undefined if there is no such account. */
export function enquiredName(
  book: TransferBook,
  accountNumber: string,
  fault: RequestFault,
): string | undefined {
  if (fault === 'not found') return undefined
  return fault === 'wrong name' ? 'ANOTHER HOLDER' : book.nameOf(accountNumber)
}
