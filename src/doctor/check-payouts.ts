import type { BankCode } from '../banks/bank.ts'
import type { Config } from '../config/config.ts'
import { payingBanks } from '../config/start-settings.ts'
import { DAY_MS, MINUTE_MS } from '../core/durations.ts'
import { formatAmount } from '../core/money.ts'
import { countDiscrepancies } from '../payouts/discrepancies.ts'
import { countUnclear } from '../payouts/list-waiting.ts'
import { countRefusedSettlements } from '../payouts/pay-settlements.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { createFindings, type Finding } from './finding.ts'

/** A running service reads the float at a bank every half minute. */
const OLD_MS = 5 * MINUTE_MS

/** How long a settlement that cannot be paid out is reported; the service stops trying after five days. */
const REFUSED_MS = 7 * DAY_MS

/** Payouts, settlements and accounts are counted up to this number. */
const COUNT_MAX = 1_000

interface Float {
  readonly bank: BankCode
  readonly availableMinor: string | null
  readonly readAtMs: number | null
  readonly error: string
}

/** Checks which live banks pay out, their floats, and which payouts wait for an operator. */
export async function checkPayouts(
  on: Queryable,
  liveBanks: Config['liveBanks'],
  nowMs: number,
): Promise<readonly Finding[]> {
  const findings = createFindings('Payouts')
  const live = { businessIds: undefined, live: true }
  const pays = payingBanks({ liveBanks }).length > 0
  const waiting = [
    [
      await countDiscrepancies(on, live, COUNT_MAX),
      'differences between bank transfers and payouts wait for an operator',
      'look at each at once: inflow payout discrepancies',
    ],
    [
      await countUnclear(on, live, COUNT_MAX, nowMs),
      'payouts have no known result',
      "look for each in the bank's books: inflow review list --kind PAYOUT",
    ],
    [
      await countRefusedSettlements(on, nowMs - REFUSED_MS, COUNT_MAX),
      'settlements of the last week cannot be paid out',
      'see why; after the service has stopped trying, pay each by a payout: inflow settle list --json',
    ],
    [
      pays ? await countSimulated(on) : 0,
      'live accounts were opened by the sandbox: simulated payments into them are paid out as real money',
      'compare the balances of their businesses with the banks: "simulated" in inflow account list --json',
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

/** Counts live accounts that the sandbox opened, for example because the database was that of an embedded service. */
async function countSimulated(on: Queryable): Promise<number> {
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count from (
        select from account where live and connector = 'sandbox' and status <> 'PENDING' limit ${COUNT_MAX}
      ) account`,
  )
  return rows[0]?.count ?? 0
}

/** Counts pauses; all of them concern live mode. */
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
    const found = `the balance for payouts at ${bank} was never read${error === '' ? '' : `: ${error}`}`
    findings.warn(found, `check the settings BANK_${bank}_TRANSFER_…, and that a service runs`)
    return
  }
  const readAt = new Date(readAtMs).toISOString()
  const amount = `NGN ${formatAmount(BigInt(availableMinor))}`
  if (nowMs - readAtMs <= OLD_MS) findings.ok(`${bank} had ${amount} for payouts at ${readAt}`)
  else {
    const cause = error === '' ? '' : `: ${error}`
    const advice = 'check the bank, and that a service with these settings runs'
    findings.warn(`the balance for payouts at ${bank} was last read at ${readAt}${cause}`, advice)
  }
}
