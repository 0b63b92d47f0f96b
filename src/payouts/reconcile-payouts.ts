import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { BANK_FACTS, type BankCode } from '../banks/bank.ts'
import type { TransferConnector } from '../banks/transfer.ts'
import { forEachConcurrently } from '../core/concurrency.ts'
import { DAY_MS, MINUTE_MS } from '../core/durations.ts'
import { Fault, invalidFields } from '../core/errors.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { inTransaction, type Queryable } from '../postgres/in-transaction.ts'
import { pageTokenOf, readPage } from '../postgres/page-token.ts'
import { type Compared, compareLines, reportDiscrepancies, storeListed } from './compare-lines.ts'
import { resolveShown } from './discrepancies.ts'
import {
  type Discrepancy,
  factsOfPayout,
  type Line,
  type ListedBank,
  type NewDiscrepancy,
} from './discrepancy.ts'
import { readGeneration } from './find-anywhere.ts'
import type { Payout } from './payout.ts'
import type { PayoutContext } from './reserve-payout.ts'
import { transferBanks } from './resolve-name.ts'
import { askBank } from './send-payouts.ts'
import { changePayout, PAYOUT_COLUMNS, type PayoutRow, toPayout } from './store.ts'

interface Period {
  readonly fromMs: number
  /** Exclusive. */
  readonly toMs: number
}

interface ReconcilePayouts extends ListedBank {
  /** Undefined: payouts that the lines lack are not looked for. */
  readonly period: Period | undefined
  /** Lines of a statement; empty: the bank lists its transfers. */
  readonly lines: readonly Line[]
  readonly pageToken: string
}

/** A call starts no work after this time, so that the caller gets a response however slow the bank is. */
const START_MS = 15_000

/** A list takes longer than other calls. */
const LIST_TIMEOUT_MS_MIN = 20_000

/**
 * Compares the outgoing transfers of a bank with the payouts, by the bank's own list of a period or by lines of a
 * statement. Then looks for payouts that were paid in the period and that the bank did not show.
 *
 * @throws Fault validation_failed (the page token, or the bank cannot list), bank_unavailable
 */
export async function reconcilePayouts(
  context: PayoutContext,
  { bank, live, period, lines, pageToken }: ReconcilePayouts,
  actor: Actor,
): Promise<Compared & { readonly nextPageToken: string }> {
  const untilMs = context.clock.now() + START_MS
  const of = { bank, live }
  const total = { lines: 0, matched: 0, asked: 0, discrepancies: [] as Discrepancy[] }
  const add = (compared: Compared): void => {
    total.lines += compared.lines
    total.matched += compared.matched
    total.asked += compared.asked
    total.discrepancies.push(...compared.discrepancies)
  }
  const [step = 'list', after = ''] = readPage(1, pageToken, 2).after ?? []
  let next: readonly [step: string, after: string] | undefined = ['missing', after]
  if (step === 'list') {
    const page =
      lines.length > 0
        ? add(await compareLines(context, of, lines))
        : await comparePages(context, of, { period, after }, async (compared) => {
            add(compared)
            return context.clock.now() < untilMs
          })
    next = page ? ['list', page] : ['missing', '']
  }
  if (next[0] === 'missing') {
    const missing = period && (await findMissing(context, of, { period, after: next[1], untilMs }))
    total.discrepancies.push(...(missing?.discrepancies ?? []))
    next = missing?.after === undefined ? undefined : ['missing', missing.after]
  }
  const { discrepancies, ...counts } = total
  await inTransaction(context.database.durablePool, (client) =>
    appendAudit(client, actor, {
      action: 'payout_statement.reconcile',
      targetId: bank,
      details: { live, ...counts, found: discrepancies.length },
    }),
  )
  return { ...total, nextPageToken: next === undefined ? '' : pageTokenOf(next) }
}

/**
 * Compares the pages of a bank's list until the list ends or `goesOn` returns false.
 *
 * @param after the page to begin with; empty: the first page
 * @returns the page to continue with; undefined: the list has ended
 * @throws Fault validation_failed (the bank cannot list), bank_unavailable
 */
async function comparePages(
  context: PayoutContext,
  of: ListedBank,
  { period, after }: Pick<ReconcilePayouts, 'period'> & { readonly after: string },
  goesOn: (compared: Compared) => Promise<boolean>,
): Promise<string | undefined> {
  const lister = listerOf(context, of)
  if (period === undefined || lister === undefined) {
    const message = `are required: ${BANK_FACTS[of.bank].name} cannot list its transfers`
    throw invalidFields([{ field: 'lines', message }])
  }
  let page = after || undefined
  do {
    const listed = await lister({ ...period, page })
    page = listed.next
    if (!(await goesOn(await compareLines(context, of, listed.lines)))) break
  } while (page !== undefined)
  return page
}

type Lister = NonNullable<TransferConnector['listTransfers']>

/** Returns a function that lists the transfers of a bank; undefined: the bank cannot list them. */
function listerOf({ bankOf }: PayoutContext, { bank, live }: ListedBank) {
  const served = transferBanks(bankOf, live).get(bank)
  const list = served?.transfers.listTransfers
  if (served === undefined || list === undefined) return undefined
  const timeoutMs = Math.max(served.callTimeoutMs, LIST_TIMEOUT_MS_MIN)
  return (period: Parameters<Lister>[0]): ReturnType<Lister> =>
    list(period, AbortSignal.timeout(timeoutMs)).catch((cause: unknown) => {
      const text = `${BANK_FACTS[bank].name} did not list its transfers; repeat the request later`
      throw new Fault('bank_unavailable', text, { retryAfterSeconds: 30, cause })
    })
}

/** How many payouts one statement reads, and for how many of them the bank is asked concurrently. */
const ASKED_MAX = 100

const ASKED_CONCURRENCY = 8

/** The bank's time of a transfer may differ from ours, so payouts near the ends of the period are not looked for. */
const EDGE_MS = 5 * MINUTE_MS

/**
 * Finds payouts that were sent and paid in a period, and that the bank did not show. The bank is asked about each of them
 * first, because a list may lack transfers, for example transfers within the bank.
 *
 * @returns the differences, and in `after` where to continue if the time ran out; undefined: all payouts were checked
 */
async function findMissing(
  context: PayoutContext,
  of: ListedBank,
  {
    period,
    after: first,
    untilMs,
  }: { readonly period: Period; readonly after: string; readonly untilMs: number },
): Promise<{ readonly discrepancies: readonly Discrepancy[]; readonly after: string | undefined }> {
  const { durablePool } = context.database
  const discrepancies: Discrepancy[] = []
  let after = first
  for (;;) {
    const payouts = await listNotShown(durablePool, of, period, after)
    const found: NewDiscrepancy[] = []
    await forEachConcurrently(payouts, ASKED_CONCURRENCY, async (payout) => {
      const difference = await confirm(context, of, payout)
      if (difference !== undefined) found.push(difference)
    })
    discrepancies.push(...(await reportDiscrepancies(context, found)))
    const last = payouts.at(-1)
    if (last === undefined || payouts.length < ASKED_MAX) return { discrepancies, after: undefined }
    after = last.id
    if (context.clock.now() >= untilMs) return { discrepancies, after }
  }
}

async function listNotShown(
  on: Queryable,
  { bank, live }: ListedBank,
  { fromMs, toMs }: Period,
  after: string,
): Promise<readonly Payout[]> {
  const { rows } = await on.query<PayoutRow>(
    `select ${PAYOUT_COLUMNS} from payout
      where status = 'PAID' and bank = $1 and live = $2 and completed_at >= $3 and completed_at < $4
        and submitted_at >= $3 and id > $5
        and not exists (select from payout_listed where payout_id = payout.id)
        and not exists (
          select from payout_discrepancy d
          where d.bank = $1 and d.live = $2 and d.line_key = payout.bank_reference and d.kind = 'MISSING_AT_BANK'
            and d.resolved_at is not null)
      order by id limit ${ASKED_MAX}`,
    [bank, live, new Date(fromMs + EDGE_MS), new Date(toMs - EDGE_MS), after],
  )
  return rows.map(toPayout)
}

/**
 * Asks the bank about a payout that it did not show.
 *
 * @returns the difference; undefined: the bank confirms the payout, or its list is still being read, so the next run asks
 */
async function confirm(
  context: PayoutContext,
  of: ListedBank,
  payout: Payout,
): Promise<NewDiscrepancy | undefined> {
  const { database, clock, wake } = context
  const found = await askBank(context, payout, await readGeneration(database.durablePool))
  if (found.kind === 'paid' || found.kind === 'returned') {
    const nowMs = clock.now()
    await storeListed(database.durablePool, [{ payoutId: payout.id, sessionId: '' }], nowMs)
    await resolveShown(database.durablePool, [payout.id], nowMs)
    if (found.kind === 'returned') {
      await changePayout(database.durablePool, payout, { status: 'PAID', nextInMs: 0 }, nowMs)
      wake()
    }
    return undefined
  }
  if (found.kind === 'unknown' && found.isReading) return undefined
  const stated = {
    failed: 'states that it failed',
    pending: 'states that it is not finished',
    'not found': 'states that it does not know it',
    unknown: 'does not confirm it',
  }[found.kind]
  const text = `The payout is paid here; ${BANK_FACTS[of.bank].name} does not list it, and ${stated}: ${found.cause}.`
  return { ...factsOfPayout(of, payout), kind: 'MISSING_AT_BANK', text }
}

/** When to compare the outgoing transfers of live banks with the payouts. */
export interface ReconcileTimes {
  /** How far back a run lists; 0 disables runs. */
  readonly windowMs: number
  /** The time from one run to the next; 0 disables runs. */
  readonly intervalMs: number
  /** Younger transfers may not be listed yet. */
  readonly graceMs: number
}

/** How long one instance owns a run after each page. */
const LEASE_MS = 3 * MINUTE_MS

const RETRY_MS = 5 * MINUTE_MS

/** How far back a run lists at most, even after a longer downtime. */
const BACK_MAX_MS = 31 * DAY_MS

const LOOK_EVERY_MS = 5_000

/**
 * Compares, at every interval, the outgoing transfers of a window at each live bank that can list them. One instance at a
 * time works on a bank. If it dies, another instance starts the run again once the lease ends, which is safe.
 */
export function createReconcilePayouts(context: PayoutContext, times: ReconcileTimes): Loop {
  const { log, bankOf } = context
  return createLoop({
    name: 'payout reconciliation',
    log,
    everyMs: LOOK_EVERY_MS,
    async turn(signal) {
      if (times.windowMs === 0 || times.intervalMs === 0) return undefined
      for (const [bank, { transfers }] of transferBanks(bankOf, true)) {
        if (transfers.listTransfers !== undefined && !signal.aborted) {
          await runIfDue(context, times, bank, signal)
        }
      }
      return undefined
    },
  })
}

async function runIfDue(
  context: PayoutContext,
  times: ReconcileTimes,
  bank: BankCode,
  signal: AbortSignal,
): Promise<void> {
  const { database, clock, log } = context
  const { durablePool } = database
  const nowMs = clock.now()
  const lastToMs = await claimRun(durablePool, bank, nowMs)
  if (lastToMs === undefined) return
  const fromMs = Math.max(Math.min(nowMs - times.windowMs, lastToMs), nowMs - BACK_MAX_MS)
  const period = { fromMs, toMs: Math.max(nowMs - times.graceMs, fromMs) }
  const of = { bank, live: true }
  try {
    let found = 0
    const page = await comparePages(context, of, { period, after: '' }, async (compared) => {
      found += compared.discrepancies.length
      await saveRun(durablePool, bank, { nextInMs: LEASE_MS })
      return !signal.aborted
    })
    // This instance is stopping: another instance starts the run again.
    if (page !== undefined) return await saveRun(durablePool, bank, { nextInMs: 0 })
    const all = { period, after: '', untilMs: Number.POSITIVE_INFINITY }
    found += (await findMissing(context, of, all)).discrepancies.length
    await saveRun(durablePool, bank, { nextInMs: times.intervalMs, toMs: period.toMs })
    log.info({ bank, found }, 'reconciliation of payouts finished')
  } catch (error) {
    log.warn({ err: error, bank }, 'reconciliation of payouts failed; it will be retried')
    await saveRun(durablePool, bank, { nextInMs: RETRY_MS })
  }
}

/** @returns the end of the period of the last run; undefined: no run is due, or another instance has claimed it */
async function claimRun(on: Queryable, bank: BankCode, nowMs: number): Promise<number | undefined> {
  const { rows } = await on.query<{ to_ms: number }>(
    `insert into payout_reconciliation (bank, to_at, next_at)
      values ($1, $2, now() + $3 * interval '1 millisecond')
      on conflict (bank) do update set next_at = excluded.next_at where payout_reconciliation.next_at <= now()
      returning round(date_part('epoch', to_at) * 1000) as to_ms`,
    [bank, new Date(nowMs), LEASE_MS],
  )
  return rows[0]?.to_ms
}

/** @param toMs the end of the period that the run has compared; absent: the run is not finished */
async function saveRun(
  on: Queryable,
  bank: BankCode,
  { nextInMs, toMs }: { readonly nextInMs: number; readonly toMs?: number },
): Promise<void> {
  await on.query(
    `update payout_reconciliation set next_at = now() + $2 * interval '1 millisecond', to_at = coalesce($3, to_at)
      where bank = $1`,
    [bank, nextInMs, toMs === undefined ? null : new Date(toMs)],
  )
}
