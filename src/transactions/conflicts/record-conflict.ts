import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import type { Logger } from 'pino'
import type { BankCode } from '../../banks/bank.ts'
import { afterCommit } from '../../core/after-commit.ts'
import type { Clock } from '../../core/clock.ts'
import { newId } from '../../core/ids.ts'
import { appendEvents } from '../../events/append-events.ts'
import { byteaArray, textArray } from '../../postgres/binary-arrays.ts'
import { queriesOf, queryableOf } from '../../postgres/queries-of.ts'
import { PaymentConflictEntity } from '../exceptions.entity.ts'
import type { IncomingPayment, TransactionStatus } from '../transaction.ts'
import { encodeConflictEvent } from './message.ts'
import type { StoredConflict } from './payment-conflict.ts'

/** A report that contradicts a recorded transaction. */
export interface ConflictingReport {
  readonly bank: BankCode
  readonly transactionId: string
  readonly reported: Pick<IncomingPayment, 'sessionId' | 'accountNumber' | 'amountMinor'> & {
    readonly status: TransactionStatus
  }
}

interface Dependencies {
  readonly orm: MikroORM
  readonly clock: Clock
  readonly log: Logger
  /** Called once for each distinct report. */
  readonly onConflict: (conflict: StoredConflict) => void
}

/**
 * Stores reports that contradict recorded transactions for manual review, in one commit. The same
 * report is stored once.
 */
export async function recordConflicts(
  { orm, clock, log, onConflict }: Dependencies,
  reports: readonly ConflictingReport[],
): Promise<void> {
  const createdAt = new Date(clock.now())
  const rows = reports.map(({ transactionId, reported }) => {
    const { accountNumber, amountMinor, status } = reported
    const id = newId('cfl', createdAt.getTime())
    return { transaction: transactionId, accountNumber, amountMinor, status, id, createdAt }
  })
  // Every statement inserts in the same order, to prevent deadlocks.
  const sorted = rows
    .map((row) => ({ row, key: keyOf(row) }))
    .sort((a, b) => (a.key < b.key ? -1 : 1))
    .map(({ row }) => row)
  const reportOf = new Map(reports.map((report) => [report.transactionId, report]))
  const inserted = await orm.em.fork().transactional(async (em) => {
    const stored = await queriesOf<typeof PaymentConflictEntity>(em)
      .insertInto('payment_conflict')
      .values(sorted)
      .onConflict((conflicting) => conflicting.doNothing())
      .returning(['id', 'transaction', 'accountNumber', 'amountMinor', 'status', 'createdAt'])
      .execute()
    const held = stored.map((row) => {
      const { bank, reported } = reportOf.get(row.transaction) as ConflictingReport
      return { ...row, bank, sessionId: reported.sessionId }
    })
    if (held.length > 0) await appendHeld(em, held, createdAt.getTime())
    return held
  })
  for (const conflict of inserted) afterCommit(log, () => onConflict(conflict))
}

/** The events belong to no business, so only operators receive them. */
async function appendHeld(
  em: EntityManager,
  conflicts: readonly StoredConflict[],
  nowMs: number,
): Promise<void> {
  const ids = conflicts.map(() => newId('evt', nowMs))
  const payloads = conflicts.map((conflict, index) =>
    encodeConflictEvent(conflict, ids[index] as string, nowMs),
  )
  await queryableOf(em).query({
    text: appendEvents(HELD_EVENT, 'from unnest($1::text[], $2::bytea[]) as i(event_id, payload)'),
    values: [textArray(ids), byteaArray(payloads), new Date(nowMs)],
  })
}

const HELD_EVENT = {
  kind: "'PAYMENT_HELD'",
  business_id: "''",
  live: 'true',
  occurred_at: '$3::timestamptz',
}

function keyOf({
  transaction,
  accountNumber,
  amountMinor,
  status,
}: Pick<StoredConflict, 'transaction' | 'accountNumber' | 'amountMinor' | 'status'>): string {
  return `${transaction} ${accountNumber} ${amountMinor} ${status}`
}

/** How many reports that contradict a recorded transaction wait for an operator. */
export function countConflicts(em: EntityManager): Promise<number> {
  return em.count(PaymentConflictEntity, { resolvedAt: null })
}
