import type { Clock } from '../../../core/clock.ts'
import { parseNaira } from '../../amount.ts'
import { BANK_FACTS } from '../../bank.ts'
import { createFakeIds } from '../../fake/fake-ids.ts'
import type { PalmPayOrder } from './order.ts'

export interface PalmPayAccount {
  readonly virtualAccountNo: string
  readonly virtualAccountName: string
  readonly accountReference: string
  status: 'Enabled' | 'Disabled'
}

/** The fields that a payment may set; the rest is generated. */
export type PalmPayPayment = Partial<
  Pick<PalmPayOrder, 'sessionId' | 'payerName' | 'payerBankName' | 'reference' | 'orderStatus'>
> & {
  /** When it is received, epoch milliseconds; default: now. */
  readonly atMs?: number
}

const ROWS_MAX = 200_000

/** The accounts and orders of the fake PalmPay. */
export interface PalmPayBooks {
  /** By number. */
  readonly accounts: ReadonlyMap<string, PalmPayAccount>
  /** The newest account of each reference. */
  readonly accountsByReference: ReadonlyMap<string, PalmPayAccount>
  /** By number. */
  readonly orders: ReadonlyMap<string, PalmPayOrder>
  open(name: string, reference: string): PalmPayAccount
  /** @param amount naira */
  receive(accountNumber: string, amount: string, payment?: PalmPayPayment): PalmPayOrder
}

export function createPalmPayBooks(clock: Clock): PalmPayBooks {
  const ids = createFakeIds(clock, BANK_FACTS.PALMPAY.nubanCode, '100033')
  const accounts = new Map<string, PalmPayAccount>()
  const accountsByReference = new Map<string, PalmPayAccount>()
  const orders = new Map<string, PalmPayOrder>()
  return {
    accounts,
    accountsByReference,
    orders,
    open(name, reference) {
      if (accounts.size >= ROWS_MAX)
        throw new RangeError(`the limit of ${ROWS_MAX} accounts is reached`)
      const account: PalmPayAccount = {
        virtualAccountNo: ids.accountNumber(),
        virtualAccountName: name,
        accountReference: reference,
        status: 'Enabled',
      }
      accounts.set(account.virtualAccountNo, account)
      accountsByReference.set(reference, account)
      return account
    },
    receive(accountNumber, amount, payment = {}) {
      const account = accounts.get(accountNumber)
      const amountMinor = parseNaira(amount)
      if (account?.status !== 'Enabled') throw new RangeError(`no active account ${accountNumber}`)
      if (!amountMinor) throw new RangeError(`invalid naira amount: ${amount}`)
      if (orders.size >= ROWS_MAX)
        throw new RangeError(`the limit of ${ROWS_MAX} orders is reached`)
      const createdAtMs = payment.atMs ?? clock.now()
      const sessionId = ids.sessionId(createdAtMs)
      const order: PalmPayOrder = {
        orderNo: `MI${sessionId.slice(6)}`,
        orderStatus: payment.orderStatus ?? 1n,
        createdAtMs,
        amountMinor,
        accountNumber,
        accountName: account.virtualAccountName,
        accountReference: account.accountReference,
        payerName: payment.payerName ?? 'NGOZI EZE',
        payerAccountNumber: '0123456789',
        payerBankName: payment.payerBankName ?? 'First Bank of Nigeria',
        sessionId: payment.sessionId ?? sessionId,
        reference: payment.reference ?? `transfer ${orders.size + 1}`,
      }
      orders.set(order.orderNo, order)
      return order
    },
  }
}
