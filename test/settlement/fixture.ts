import type { Pool } from 'pg'
import pino from 'pino'
import { createFindOpenAccounts } from '../../src/accounts/open-accounts.ts'
import type { Clock } from '../../src/core/clock.ts'
import { newId } from '../../src/core/ids.ts'
import type { Database } from '../../src/postgres/orm.ts'
import { createSemaphore } from '../../src/postgres/semaphore.ts'
import { createSettlementJob } from '../../src/settlement/runs/job.ts'
import type { SettlementContext } from '../../src/settlement/runs/run-settlement.ts'
import { verifyLedger } from '../../src/settlement/verification/verify-ledger.ts'
import { createRecordPayment } from '../../src/transactions/record-payment.ts'
import type { IncomingPayment } from '../../src/transactions/transaction.ts'
import { SYSTEM } from '../support/operator.ts'

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
export function createInstance(database: Database, clock: Clock) {
  const { pool } = database
  const context: SettlementContext = {
    database,
    semaphore: createSemaphore(4),
    clock,
    log: pino({ level: 'silent' }),
    onCommit: () => undefined,
  }
  const recordPayment = createRecordPayment({
    pool,
    orm: database.orm,
    findOpenAccounts: createFindOpenAccounts(pool, () => true),
    isSimulated: () => true,
    clock,
    log: context.log,
    onCommit: () => undefined,
    onUnmatched: () => undefined,
    onConflict: () => undefined,
  })
  const job = createSettlementJob(context)
  return { ...context, pool, recordPayment, job }
}

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

/** All discrepancies that a verification reports. */
export async function findDiscrepancies(pool: Pool): Promise<string[]> {
  const found: string[] = []
  let completed = false
  for await (const progress of verifyLedger(pool)) {
    found.push(...progress.discrepancies.map(({ subject, problem }) => `${subject}: ${problem}`))
    completed = progress.completed
  }
  if (!completed) throw new Error('the verification ended early')
  return found
}
