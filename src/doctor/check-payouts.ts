import type { BankCode } from '../banks/bank.ts'
import type { Config } from '../config/config.ts'
import { DAY_MS, MINUTE_MS } from '../core/durations.ts'
import { formatAmount } from '../core/money.ts'
import { countDiscrepancies } from '../payouts/discrepancies.ts'
import { countUnclear } from '../payouts/list-waiting.ts'
import { countRefusedSettlements } from '../payouts/pay-settlements.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { createFindings, type Finding } from './finding.ts'

/** A running service reads what a bank has every half minute. */
const OLD_MS = 5 * MINUTE_MS

/** For how long a settlement that cannot be paid out is reported: it is given up after five days. */
const REFUSED_MS = 7 * DAY_MS

/** The most that is counted. */
const COUNT_MAX = 1_000

interface Float {
  readonly bank: BankCode
  readonly availableMinor: string | null
  readonly readAtMs: number | null
  readonly error: string
}

/** Checks which live banks pay and from what, and which payouts wait for an operator. */
export async function checkPayouts(
  on: Queryable,
  liveBanks: Config['liveBanks'],
  nowMs: number,
): Promise<readonly Finding[]> {
  const findings = createFindings('Payouts')
  const live = { businessIds: undefined, live: true }
  const waiting = [
    [
      await countDiscrepancies(on, live, COUNT_MAX),
      'differences between what banks sent out and the payouts wait',
      'look at each at once: inflow payout discrepancies',
    ],
    [
      await countUnclear(on, live, COUNT_MAX, nowMs),
      'payouts have no result that is known',
      "look for each in the bank's books: inflow review list --kind PAYOUT",
    ],
    [
      await countRefusedSettlements(on, nowMs - REFUSED_MS, COUNT_MAX),
      'settlements of the last week cannot be paid out',
      'see why, and pay them by a payout once they are tried no more: inflow settle list --json',
    ],
    [
      await countPauses(on),
      'pauses stop payouts',
      'see why, and end them: inflow payout pauses, inflow payout resume',
    ],
  ] as const
  for (const [count, found, advice] of waiting) {
    if (count > 0) findings.warn(`${count} ${found}`, advice)
  }
  if (findings.all.length === 0) findings.ok('no payout waits for an operator')
  const { rows: floats } = await on.query<Float>(
    `select bank, available_minor as "availableMinor", round(date_part('epoch', read_at) * 1000) as "readAtMs", error
      from bank_float where live and bank = any($1::text[]) order by bank`,
    [Object.keys(liveBanks)],
  )
  for (const float of floats) checkFloat(findings, float, nowMs)
  return findings.all
}

/** Those that concern live mode: all of them. */
async function countPauses(on: Queryable): Promise<number> {
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count from (select from payout_pause limit ${COUNT_MAX}) pause`,
  )
  return rows[0]?.count ?? 0
}

function checkFloat(
  findings: ReturnType<typeof createFindings>,
  { bank, availableMinor, readAtMs, error }: Float,
  nowMs: number,
): void {
  if (availableMinor === null || readAtMs === null) {
    const found = `what ${bank} has for payouts was never read${error === '' ? '' : `: ${error}`}`
    findings.warn(found, `check the settings BANK_${bank}_TRANSFER_…, and that a service runs`)
    return
  }
  const readAt = new Date(readAtMs).toISOString()
  const amount = `NGN ${formatAmount(BigInt(availableMinor))}`
  if (nowMs - readAtMs <= OLD_MS) findings.ok(`${bank} had ${amount} for payouts at ${readAt}`)
  else {
    const cause = error === '' ? '' : `: ${error}`
    const advice = 'check the bank, and that a service with these settings runs'
    findings.warn(`what ${bank} has for payouts was last read at ${readAt}${cause}`, advice)
  }
}
