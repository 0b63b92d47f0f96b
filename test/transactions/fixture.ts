import type { Timestamp } from '@bufbuild/protobuf/wkt'
import type { Pool } from 'pg'
import type { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { creation } from '../protocols/rest/rest.ts'
import type { TestService } from '../support/service.ts'

export interface Payment {
  readonly bank?: Bank
  readonly accountNumber?: string
  readonly sessionId?: string
  readonly amountMinor?: bigint
  readonly status?: TransactionStatus
  readonly paidAt?: Timestamp
  readonly payer?: {
    readonly name?: string
    readonly accountNumber?: string
    readonly bankCode?: string
    readonly bankName?: string
  }
  readonly narration?: string
}

export interface OpenedAccount {
  readonly businessId: string
  readonly key: string
  readonly number: string
  readonly reference: string
}

/** Creates a business with one account at 9PSB. */
export async function openAccount(service: TestService): Promise<OpenedAccount> {
  const { id: businessId, key } = await service.business()
  const { body } = await service.post('generateVirtualAccount/', key, creation())
  const { reference, account } = body.data
  return { businessId, key, reference, number: account[0].account_number }
}

/** A payment of 1,000 naira. */
export function paymentInto(accountNumber: string, overrides: Payment = {}): Payment {
  return {
    bank: Bank.BANK_9PSB,
    accountNumber,
    sessionId: 's-1',
    amountMinor: 100_000n,
    ...overrides,
  }
}

export function transactionsOf(service: TestService) {
  return service.client(TransactionService)
}

/** The stored rows of a session. */
export async function storedOf(pool: Pool, sessionId: string) {
  const one = async (text: string) => (await pool.query(text, [sessionId])).rows
  const transaction = `from transaction t where t.session_id = $1`
  return {
    transactions: await one(`select status, amount_minor ${transaction}`),
    postings: await one(
      `select p.kind, p.debit_account, p.credit_account, p.amount_minor from ledger_posting p
        where p.transaction_id in (select id ${transaction}) order by p.kind`,
    ),
    events: await one(
      // That a contradicting report is held concerns operators, not the payment.
      `select kind from outbox where kind like 'PAYMENT%' and kind <> 'PAYMENT_HELD'
        and position(convert_to($1, 'UTF8') in payload) > 0 order by seq`,
    ),
    conflicts: await one(
      `select account_number, amount_minor, status from payment_conflict
        where transaction_id in (select id ${transaction}) order by 1, 2, 3`,
    ),
    unmatched: await one(
      'select account_number, amount_minor, status from unmatched_payment where session_id = $1',
    ),
  }
}
