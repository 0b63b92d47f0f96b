import type { Clock } from '../../../core/clock.ts'
import { BANK_FACTS } from '../../bank.ts'
import { parseNaira } from '../../bank-fields.ts'
import { createFakeIds } from '../../fake/fake-ids.ts'
import type { SafeHavenTransfer } from './transfer.ts'

export interface SafeHavenAccount {
  readonly id: string
  readonly accountNumber: string
  readonly name: string
  readonly reference: string
  readonly isVirtual: boolean
  /** URL for notifications of its payments; empty: none are sent. */
  readonly callbackUrl: string
  /** How many more responses omit the number of an expiring account. */
  pollsWithoutNumber: number
  status: 'Active' | 'Closed'
}

/** The fields that a payment may set; the rest is generated. */
export type SafeHavenPayment = Partial<
  Pick<
    SafeHavenTransfer,
    'sessionId' | 'senderName' | 'senderAccountNumber' | 'narration' | 'status'
  >
> & {
  /** When it is received, epoch milliseconds; default: now. */
  readonly atMs?: number
}

const ROWS_MAX = 200_000

/** The accounts and transfers of the fake Safe Haven. */
export interface SafeHavenBooks {
  /** By number. */
  readonly accounts: ReadonlyMap<string, SafeHavenAccount>
  readonly accountsById: ReadonlyMap<string, SafeHavenAccount>
  /** By session. */
  readonly transfers: ReadonlyMap<string, SafeHavenTransfer>
  /** By account, oldest first. */
  readonly received: ReadonlyMap<string, readonly SafeHavenTransfer[]>
  open(details: Omit<SafeHavenAccount, 'id' | 'accountNumber' | 'status'>): SafeHavenAccount
  /** @param amount naira */
  receive(accountNumber: string, amount: string, payment?: SafeHavenPayment): SafeHavenTransfer
}

export function createSafeHavenBooks(clock: Clock): SafeHavenBooks {
  const ids = createFakeIds(clock, BANK_FACTS.SAFEHAVEN.nubanCode, '000016')
  const accounts = new Map<string, SafeHavenAccount>()
  const accountsById = new Map<string, SafeHavenAccount>()
  const transfers = new Map<string, SafeHavenTransfer>()
  const received = new Map<string, SafeHavenTransfer[]>()
  let rows = 0
  const newId = () => {
    if (rows >= ROWS_MAX) throw new RangeError(`the limit of ${ROWS_MAX} rows is reached`)
    rows += 1
    return clock.now().toString(16).padStart(12, '0') + rows.toString(16).padStart(12, '0')
  }
  return {
    accounts,
    accountsById,
    transfers,
    received,
    open(details) {
      const id = newId()
      const accountNumber = ids.accountNumber()
      const account: SafeHavenAccount = { ...details, id, accountNumber, status: 'Active' }
      accounts.set(accountNumber, account)
      accountsById.set(id, account)
      return account
    },
    receive(number, amount, payment = {}) {
      const account = accounts.get(number)
      const amountMinor = parseNaira(amount)
      if (account?.status !== 'Active') throw new RangeError(`no active account ${number}`)
      if (!amountMinor) throw new RangeError(`invalid naira amount: ${amount}`)
      const atMs = payment.atMs ?? clock.now()
      const senderName = payment.senderName ?? 'AMAKA BELLO'
      const transfer: SafeHavenTransfer = {
        id: newId(),
        sessionId: payment.sessionId ?? ids.sessionId(atMs),
        accountId: account.id,
        accountNumber: number,
        accountName: account.name,
        isVirtual: account.isVirtual,
        amountMinor,
        senderName,
        senderAccountNumber: payment.senderAccountNumber ?? '0987654321',
        narration: payment.narration ?? `MOB/${senderName}`,
        atMs,
        status: payment.status ?? 'Completed',
        isReversed: false,
      }
      transfers.set(transfer.sessionId, transfer)
      const own = received.get(account.id)
      if (own) own.push(transfer)
      else received.set(account.id, [transfer])
      return transfer
    },
  }
}
