import type { Clock } from '../../../core/clock.ts'
import { parseNaira } from '../../amount.ts'
import { BANK_FACTS } from '../../bank.ts'
import { createFakeIds } from '../../fake/fake-ids.ts'
import type { ProvidusTransaction } from './transaction.ts'

export interface ProvidusAccount {
  readonly accountNumber: string
  readonly accountName: string
}

/** The fields that a payment may set; the rest is generated. */
export type ProvidusPayment = Partial<
  Pick<
    ProvidusTransaction,
    | 'sessionId'
    | 'settlementId'
    | 'remarks'
    | 'sourceAccountNumber'
    | 'sourceAccountName'
    | 'tranDateTime'
  >
> & {
  /** The bank's fee in naira; default: none. */
  readonly fee?: string
  /** When it is received, epoch milliseconds; default: now. */
  readonly atMs?: number
}

/** The accounts and payments of the fake bank. */
export interface ProvidusBooks {
  /** By number. */
  readonly accounts: ReadonlyMap<string, ProvidusAccount>
  readonly transactions: readonly ProvidusTransaction[]
  /** Every call opens an account: a retry looks like a new request. @throws RangeError */
  open(accountName: string): ProvidusAccount
  /** @throws RangeError for an unknown account or an invalid amount */
  receive(accountNumber: string, amount: string, payment?: ProvidusPayment): ProvidusTransaction
  bySettlement(settlementId: string): ProvidusTransaction | undefined
  bySession(sessionId: string): ProvidusTransaction | undefined
}

const ROWS_MAX = 200_000
const SENDER_BANK = '000004'

export function createProvidusBooks(clock: Clock): ProvidusBooks {
  const ids = createFakeIds(clock, BANK_FACTS.PROVIDUS.nubanCode, SENDER_BANK)
  const accounts = new Map<string, ProvidusAccount>()
  const transactions: ProvidusTransaction[] = []
  const settlements = new Map<string, ProvidusTransaction>()
  const sessions = new Map<string, ProvidusTransaction>()
  return {
    accounts,
    transactions,
    open(accountName) {
      if (accounts.size >= ROWS_MAX)
        throw new RangeError(`the limit of ${ROWS_MAX} accounts is reached`)
      const account = { accountNumber: ids.accountNumber(), accountName }
      accounts.set(account.accountNumber, account)
      return account
    },
    receive(accountNumber, amount, payment = {}) {
      const { fee = '0', atMs = clock.now(), ...details } = payment
      const [amountMinor, feeMinor] = [parseNaira(amount), parseNaira(fee)]
      if (!accounts.has(accountNumber)) throw new RangeError(`no account ${accountNumber}`)
      if (!amountMinor) throw new RangeError(`invalid naira amount: ${amount}`)
      if (feeMinor === undefined || feeMinor > amountMinor)
        throw new RangeError(`invalid fee: ${fee}`)
      if (transactions.length >= ROWS_MAX)
        throw new RangeError(`the limit of ${ROWS_MAX} payments is reached`)
      const stamp = ids.localTime(atMs).replaceAll(/\D/g, '')
      const transaction: ProvidusTransaction = {
        sessionId: ids.sessionId(atMs),
        settlementId: `${stamp}${String(transactions.length).padStart(10, '0')}`,
        accountNumber,
        amountMinor,
        feeMinor,
        remarks: 'FROM UBA/CASAFINA CREDIT-EASY LOAN',
        sourceAccountNumber: '2093566866',
        sourceAccountName: 'CASAFINA CREDIT-EASY LOAN',
        sourceBankCode: SENDER_BANK,
        sourceBankName: 'UNITED BANK FOR AFRICA',
        tranDateTime: ids.localTime(atMs).replace('T', ' '),
        notificationStatus: 'pending',
        ...details,
      }
      transactions.push(transaction)
      settlements.set(transaction.settlementId, transaction)
      if (transaction.sessionId !== '') sessions.set(transaction.sessionId, transaction)
      return transaction
    },
    bySettlement: (settlementId) => settlements.get(settlementId),
    bySession: (sessionId) => sessions.get(sessionId),
  }
}
