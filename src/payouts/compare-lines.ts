import type { Queryable } from '../postgres/in-transaction.ts'
import { resolveShown, storeDiscrepancies } from './discrepancies.ts'
import {
  type Discrepancy,
  differenceOf,
  type Line,
  type ListedBank,
  mismatch,
  missingHere,
  type NewDiscrepancy,
  needsAsking,
  paidTwice,
} from './discrepancy.ts'
import type { Payout } from './payout.ts'
import type { PayoutContext } from './reserve-payout.ts'
import { changePayout, PAYOUT_COLUMNS, type PayoutRow, toPayout } from './store.ts'

export interface Compared {
  readonly lines: number
  readonly matched: number
  /** The number of payouts whose bank is now asked for their result. */
  readonly asked: number
  /** The differences that were not known before. */
  readonly discrepancies: readonly Discrepancy[]
}

/**
 * Compares outgoing transfers with the payouts, and stores each difference once. A line alone moves no money: if a line
 * states a result that its payout lacks, the payout becomes due, and its bank is asked. It is safe to compare a line again.
 */
export async function compareLines(
  context: PayoutContext,
  of: ListedBank,
  lines: readonly Line[],
): Promise<Compared> {
  const { database, clock, wake } = context
  const { durablePool } = database
  const payoutOf = await findPayouts(durablePool, of, lines)
  const found: NewDiscrepancy[] = []
  const shown = new Map<string, Payout>()
  const asked = new Map<string, Payout>()
  const unnamed = new Map<Payout, number>()
  const listed: { readonly payoutId: string; readonly sessionId: string }[] = []
  let matched = 0
  for (const line of lines) {
    const payout = payoutOf(line)
    if (payout === undefined) {
      // A failed transfer moved no money, and a pending transfer may still fail.
      if (line.state === 'paid' || line.state === 'returned') found.push(missingHere(of, line))
      continue
    }
    const difference = differenceOf(of, payout, line)
    if (difference !== undefined) found.push(mismatch(of, payout, line, difference))
    else matched += 1
    if (line.state === 'paid' || line.state === 'returned') {
      shown.set(payout.id, payout)
      listed.push({ payoutId: payout.id, sessionId: line.sessionId })
    }
    if (line.state === 'paid' && line.sessionId === '' && line.amountMinor === payout.amountMinor) {
      unnamed.set(payout, (unnamed.get(payout) ?? 0) + 1)
    }
    if (needsAsking(payout.status, line)) asked.set(payout.id, payout)
  }
  const nowMs = clock.now()
  await storeListed(durablePool, listed, nowMs)
  await resolveShown(durablePool, [...shown.keys()], nowMs)
  for (const { payoutId, sessions } of await findListedTwice(durablePool, [...shown.keys()])) {
    const payout = shown.get(payoutId)
    if (payout !== undefined) found.push(paidTwice(of, payout, sessions))
  }
  // Lines without a session id are counted per call only: a repeated call sends the same lines again.
  for (const [payout, count] of unnamed) {
    if (count > 1) found.push(paidTwice(of, payout, [], count))
  }
  for (const payout of asked.values()) {
    // A payout that has changed since it was read is final, or its bank is being asked already.
    await changePayout(durablePool, payout, { status: payout.status, nextInMs: 0 }, nowMs)
  }
  if (asked.size > 0) wake()
  const discrepancies = await reportDiscrepancies(context, found)
  return { lines: lines.length, matched, asked: asked.size, discrepancies }
}

/** Finds the payout of each line by our reference, or else by the interbank session id. */
async function findPayouts(
  on: Queryable,
  { bank, live }: ListedBank,
  lines: readonly Line[],
): Promise<(line: Line) => Payout | undefined> {
  const { rows } = await on.query<PayoutRow>(
    `select ${PAYOUT_COLUMNS} from payout
      where id = any (array(
        select id from payout where bank_reference = any($1::text[])
        union all
        select id from payout where session_id = any($2::text[]) and session_id <> '' and bank = $3 and live = $4))`,
    [
      lines.map(({ reference }) => reference.toUpperCase()),
      lines.map(({ sessionId }) => sessionId),
      bank,
      live,
    ],
  )
  const payouts = rows.map(toPayout)
  const byReference = new Map(payouts.map((payout) => [payout.bankReference, payout]))
  const ofBank = payouts.filter((payout) => payout.bank === bank && payout.live === live)
  const bySession = new Map(ofBank.map((payout) => [payout.sessionId, payout]))
  return ({ reference, sessionId }) =>
    byReference.get(reference.toUpperCase()) ??
    (sessionId === '' ? undefined : bySession.get(sessionId))
}

/** Records that the bank has listed the transfers of these payouts. An empty `sessionId` means the bank does not state it. */
export async function storeListed(
  on: Queryable,
  listed: readonly { readonly payoutId: string; readonly sessionId: string }[],
  nowMs: number,
): Promise<void> {
  if (listed.length === 0) return
  await on.query(
    `insert into payout_listed (payout_id, session_id, listed_at)
      select payout_id, session_id, $3 from unnest($1::text[], $2::text[]) as listed (payout_id, session_id)
      on conflict do nothing`,
    [
      listed.map(({ payoutId }) => payoutId),
      listed.map(({ sessionId }) => sessionId),
      new Date(nowMs),
    ],
  )
}

/** Finds the payouts for which the bank has listed several transfers. */
async function findListedTwice(on: Queryable, payoutIds: readonly string[]) {
  if (payoutIds.length === 0) return []
  const { rows } = await on.query<{ payoutId: string; sessions: string[] }>(
    `select payout_id as "payoutId", array_agg(session_id order by session_id) as sessions from payout_listed
      where payout_id = any($1::text[]) and session_id <> '' group by payout_id having count(*) > 1`,
    [payoutIds],
  )
  return rows
}

/** Stores differences and logs the new differences. */
export async function reportDiscrepancies(
  { database, clock, log }: PayoutContext,
  found: readonly NewDiscrepancy[],
): Promise<readonly Discrepancy[]> {
  const stored = await storeDiscrepancies(database.durablePool, found, clock.now())
  for (const { id, kind, bank, bankReference, payoutId, text } of stored) {
    log.error(
      { id, kind, bank, bankReference, payoutId, cause: text },
      'what a bank sent out differs from the payouts: see inflow payout discrepancies',
    )
  }
  return stored
}
