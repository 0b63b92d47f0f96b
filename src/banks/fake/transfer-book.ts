import type { Clock } from '../../core/clock.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../core/durations.ts'
import { simulatedName } from '../sandbox.ts'
import type { OutgoingLine, TransferAccount } from '../transfer.ts'
import type { FakeIds } from './fake-ids.ts'

/** A fault in how a fake bank handles one transfer, besides the faults of any server. */
export type TransferFault =
  /** Accepts the transfer, and pays it a minute later. */
  | 'pays later'
  /** Accepts the transfer, and fails it an hour later. */
  | 'fails later'
  /** Pays the transfer; the beneficiary's bank sends the money back after three days. */
  | 'returns later'
  /** Pays the transfer, but status queries do not find it for a minute. */
  | 'hides'
  /** Pays the transfer, but responds with another reference or amount. */
  | 'other reference'
  | 'other amount'

/** A transfer out of the operator's account, as the fake bank knows it. */
export interface BookedTransfer extends TransferAccount {
  readonly reference: string
  readonly sessionId: string
  readonly amountMinor: bigint
  readonly accountName: string
  readonly narration: string
  readonly atMs: number
  state: OutgoingLine['state']
  /** How often the account was debited. */
  debits: number
}

type TransferRequest = Pick<
  BookedTransfer,
  'reference' | 'amountMinor' | 'bankCode' | 'accountNumber' | 'narration'
>

/** The next state of a transfer, and when it is reached. */
interface Due {
  readonly atMs: number
  readonly state: OutgoingLine['state']
}

export type TransferBook = ReturnType<typeof createTransferBook>

/** Prefix of account numbers that no bank has. */
const NO_ACCOUNT_PREFIX = '000'

const FLOAT_MINOR = 100_000_000_00n

/** The operator's account at a fake bank and the transfers out of it, by reference. */
export function createTransferBook(clock: Clock, ids: FakeIds) {
  const transfers = new Map<string, BookedTransfer>()
  const due = new Map<string, Due>()
  const hiddenUntilMs = new Map<string, number>()
  let elapsedMs = 0
  const now = () => clock.now() + elapsedMs
  const finish = (reference: string, state: OutgoingLine['state']): void => {
    const transfer = transfers.get(reference)
    if (transfer === undefined) throw new RangeError(`no transfer ${reference}`)
    due.delete(reference)
    transfer.state = state
    if (state === 'failed' || state === 'returned') {
      book.floatMinor += transfer.amountMinor * BigInt(transfer.debits)
    }
  }
  const settle = (): void => {
    for (const [reference, { atMs, state }] of due) if (atMs <= now()) finish(reference, state)
  }
  const book = {
    transfers: transfers as ReadonlyMap<string, BookedTransfer>,
    floatMinor: FLOAT_MINOR,
    /** Whether a reference that was sent before is debited again. */
    paysTwice: false,
    /** @returns undefined if there is no such account */
    nameOf: (accountNumber: string) =>
      accountNumber.startsWith(NO_ACCOUNT_PREFIX) ? undefined : simulatedName(accountNumber),
    /** Debits the account and books the transfer, unless the result is a refusal. */
    send(
      request: TransferRequest,
      fault: TransferFault | undefined,
    ): BookedTransfer | 'insufficient' | 'duplicate' {
      const known = transfers.get(request.reference)
      if (known && !book.paysTwice) return 'duplicate'
      if (request.amountMinor > book.floatMinor) return 'insufficient'
      book.floatMinor -= request.amountMinor
      const transfer: BookedTransfer = {
        ...request,
        sessionId: ids.sessionId(now()),
        accountName: book.nameOf(request.accountNumber) ?? '',
        atMs: now(),
        state: fault === 'pays later' || fault === 'fails later' ? 'pending' : 'paid',
        debits: (known?.debits ?? 0) + 1,
      }
      const { reference } = transfer
      transfers.set(reference, transfer)
      if (fault === 'pays later') due.set(reference, { atMs: now() + MINUTE_MS, state: 'paid' })
      if (fault === 'fails later') due.set(reference, { atMs: now() + HOUR_MS, state: 'failed' })
      if (fault === 'returns later') {
        due.set(reference, { atMs: now() + 3 * DAY_MS, state: 'returned' })
      }
      if (fault === 'hides') hiddenUntilMs.set(reference, now() + MINUTE_MS)
      return transfer
    },
    find(reference: string): BookedTransfer | undefined {
      settle()
      return (hiddenUntilMs.get(reference) ?? 0) > now() ? undefined : transfers.get(reference)
    },
    /** Newest first, without transfers that are still hidden. */
    list(): readonly BookedTransfer[] {
      return [...transfers.keys()].flatMap((reference) => book.find(reference) ?? []).reverse()
    },
    /** Ends a transfer now. @throws RangeError if there is no such transfer */
    finish,
    /** Advances the clock of the transfers. */
    elapse(ms: number): void {
      elapsedMs += ms
      settle()
    },
  }
  return book
}
