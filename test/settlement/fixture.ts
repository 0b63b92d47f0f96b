import type { Pool } from 'pg'
import pino, { type Logger } from 'pino'
import { createFindOpenAccounts } from '../../src/accounts/open-accounts.ts'
import type { Clock } from '../../src/core/clock.ts'
import { newId } from '../../src/core/ids.ts'
import { verifyPayouts } from '../../src/payouts/verify-payouts.ts'
import type { Database } from '../../src/postgres/orm.ts'
import { createSemaphore } from '../../src/postgres/semaphore.ts'
import { updateTerms } from '../../src/settlement/change-terms.ts'
import type { SettlementContext } from '../../src/settlement/runs/run-settlement.ts'
import { settle } from '../../src/settlement/runs/settle.ts'
import { createSettlementJob } from '../../src/settlement/settlements.ts'
import { DEFAULT_TERMS, type Terms } from '../../src/settlement/terms.ts'
import { verifyLedger } from '../../src/settlement/verify-ledger.ts'
import { createRecordPayment } from '../../src/transactions/record-payment.ts'
import { reverseTransaction } from '../../src/transactions/reverse-transaction.ts'
import { insertTransactions } from '../../src/transactions/store.ts'
import type { IncomingPayment } from '../../src/transactions/transaction.ts'
import { tamper } from '../support/database.ts'
import { sequence } from '../support/events.ts'
import { SYSTEM } from '../support/operator.ts'
import { createTestRuntime } from '../support/runtime.ts'

/** The caller in tests that call use cases directly. */
export const CALLER = { signal: new AbortController().signal, actor: SYSTEM }

/** A clock that tests set. */
export interface TestClock extends Clock {
  set(ms: number): void
}

export function testClock(ms: number): TestClock {
  let now = ms
  return {
    now: () => now,
    set: (to) => {
      now = to
    },
  }
}

/** The parts of an instance that record and settle payments, on one database. */
export function createInstance(
  database: Database,
  clock: Clock,
  log: Logger = pino({ level: 'silent' }),
) {
  const { durablePool } = database
  const runtime = createTestRuntime(database, { clock, log })
  const context: SettlementContext = {
    ...runtime,
    semaphore: createSemaphore(4),
    // Tests number events themselves.
    awaitNumbers: async () => undefined,
  }
  const recordPayment = createRecordPayment(runtime, {
    findOpenAccounts: createFindOpenAccounts(durablePool, () => true),
    isSimulated: () => true,
    onUnmatched: () => undefined,
    onConflict: () => undefined,
  })
  const job = createSettlementJob(context)
  return {
    ...context,
    durablePool,
    recordPayment,
    job,
    /** Without terms, nothing becomes due during a test, and nothing has a fee. */
    setTerms: (businessId: string, terms: Partial<Terms> = {}) =>
      updateTerms(context, businessId, { ...DEFAULT_TERMS, workingDays: 30, ...terms }, SYSTEM),
    /** Settles all that is pending and numbered. */
    settleNow: (businessId: string, { live = true, requestId = '' } = {}) =>
      settle(context, { businessId, live, requestId, force: true }, CALLER),
    reverse: (transactionId: string) =>
      reverseTransaction(
        context,
        context.semaphore,
        { transactionId, reason: 'sent twice' },
        SYSTEM,
      ),
  }
}

/** Terms under which payments are due at once. */
export const INSTANT = { schedule: 'INSTANT', workingDays: 0 } as const

/** What a forced settlement of a balance starts with, without a fee. */
export const forced = (businessId: string, cutOffAtMs: number) => ({
  businessId,
  cutOffAtMs,
  live: true,
  requestId: undefined,
  forced: true,
  feeFlatMinor: 0n,
  feeBasisPoints: 0,
  feeCapMinor: 0n,
})

let inserted = 0

/** A business with one open account. */
export async function insertBusiness(pool: Pool): Promise<{ id: string; accountNumber: string }> {
  inserted += 1
  const id = newId('biz', Date.now())
  const accountNumber = String(inserted).padStart(10, '0')
  await pool.query(
    "insert into business (id, name, alias, created_at) values ($1, 'A', 'A', now())",
    [id],
  )
  await pool.query(
    `insert into account (id, business_id, live, reference, merchant_reference, bank, account_number,
        account_name, status, first_name, last_name, email, phone, details_hash, attempts,
        claimed_until, created_at)
      values ($1, $2, true, 'R-' || $1, 'order-1', '9PSB', $3, 'A/Ada Obi', 'ACTIVE', 'Ada', 'Obi',
        'ada@example.com', '08012345678', '\\x00', 1, now(), now())`,
    [newId('acc', Date.now()), id, accountNumber],
  )
  return { id, accountNumber }
}

/** Opens a test account for the business of a live one. @returns its number */
export async function openTestAccount(pool: Pool, liveNumber: string): Promise<string> {
  const [number, id] = [`8${liveNumber.slice(1)}`, newId('acc', Date.now())]
  const changes = { id, reference: `R-${id}`, live: false, account_number: number }
  await pool.query(
    `insert into account select (jsonb_populate_record(a, $2)).* from account a
      where account_number = $1`,
    [liveNumber, changes],
  )
  return number
}

export function incoming(
  accountNumber: string,
  sessionId: string,
  amountMinor: bigint,
  status: IncomingPayment['status'] = 'SUCCESS',
): IncomingPayment {
  return {
    bank: '9PSB',
    accountNumber,
    sessionId,
    amountMinor,
    status,
    paidAtMs: Date.UTC(2026, 10, 20),
    payer: { name: '', accountNumber: '', bankCode: '', bankName: '' },
    narration: '',
    live: undefined,
    recordedBy: 'notification',
  }
}

/** Records and books payments of one naira each at a time. @returns their ids */
export async function payAt(
  pool: Pool,
  accountNumber: string,
  count: number,
  atMs: number,
): Promise<string[]> {
  const { rows } = await pool.query(
    'select id, business_id, live from account where account_number = $1',
    [accountNumber],
  )
  const account = { accountId: rows[0].id, businessId: rows[0].business_id, live: rows[0].live }
  const payments = Array.from({ length: count }, () => ({
    ...incoming(accountNumber, newId('str', atMs), 100n),
    ...account,
    id: newId('txn', atMs),
    eventId: newId('evt', atMs),
    createdAtMs: atMs,
    payload: Buffer.alloc(1),
  }))
  const recorded = await insertTransactions(pool, payments)
  if (recorded.size !== count) throw new Error(`${recorded.size} payments were recorded`)
  await sequence(pool)
  await tamper(pool, 'update event_log set logged_at = $2 where event_id = any ($1)', [
    payments.map((payment) => payment.eventId),
    new Date(atMs),
  ])
  return payments.map((payment) => payment.id)
}

/** All discrepancies that a verification reports. */
export async function findDiscrepancies(pool: Pool): Promise<string[]> {
  const found: string[] = []
  let completed = false
  for await (const progress of verifyLedger(pool, verifyPayouts)) {
    found.push(...progress.discrepancies.map(({ subject, problem }) => `${subject}: ${problem}`))
    completed = progress.completed
  }
  if (!completed) throw new Error('the verification ended early')
  return found
}
