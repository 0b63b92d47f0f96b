import { BANK_FACTS, type BankCode } from '../banks/bank.ts'
import { MINUTE_MS } from '../core/durations.ts'
import { assert } from '../core/errors.ts'
import { formatAmount } from '../core/money.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { floatKey } from './float.ts'
import type { Payout } from './payout.ts'
import type { TransferBank } from './resolve-name.ts'

/** How long a payout waits if no bank can send it: in its first minute, and later. */
const NO_BANK_MS = 5_000
const NO_BANK_LATER_MS = 25_000

/** How long a paused payout waits. The end of the pause makes it due at once. */
const PAUSED_MS = 60_000

/** How many payouts are added up that a bank paid since its float was read: far more than it pays in half a minute. */
const PAID_MAX = 10_000

/** The pauses and floats, read in the transaction that claims the payouts. */
export interface RoutingState {
  /** `GLOBAL `, `BANK …` and `BUSINESS …`. */
  readonly paused: ReadonlySet<string>
  /**
   * The last float of each bank, less its payouts in progress and those paid since it was read, in kobo, by `live BANK` or
   * `test BANK`; absent: not known.
   */
  readonly floats: Map<string, bigint>
}

/** The routing text of a payout that is sent again through the same bank. */
export const SENT_BEFORE = 'it was sent there before'

export async function readRouting(
  client: Queryable,
  due: readonly Payout[],
): Promise<RoutingState> {
  const { rows } = await client.query<{ pauses: string[]; floats: Record<string, string> }>({
    name: 'payout-routing',
    text: `select array(
          select scope || ' ' || target from payout_pause
          where scope in ('GLOBAL', 'BANK') or scope = 'BUSINESS' and target = any($1::text[])
        ) as pauses, (
          select coalesce(json_object_agg(case when live then 'live ' else 'test ' end || bank,
            (available_minor - coalesce((
              select sum(amount_minor) from payout
              where status in ('SUBMITTING', 'UNKNOWN') and payout.bank = bank_float.bank
                and payout.live = bank_float.live
            ), 0) - coalesce((
              select sum(amount_minor) from (
                select amount_minor from payout
                where status = 'PAID' and payout.bank = bank_float.bank and payout.live = bank_float.live
                  and completed_at >= bank_float.read_at
                order by completed_at desc limit ${PAID_MAX}
              ) paid
            ), 0))::text), '{}')
          from bank_float where available_minor is not null
        ) as floats`,
    values: [[...new Set(due.map(({ businessId }) => businessId))]],
  })
  const { pauses = [], floats = {} } = rows[0] ?? {}
  return {
    paused: new Set(pauses),
    floats: new Map(Object.entries(floats).map(([key, leftMinor]) => [key, BigInt(leftMinor)])),
  }
}

type Route =
  | { readonly bank: BankCode; readonly text: string }
  | { readonly bank: undefined; readonly text: string; readonly waitMs: number }

/**
 * Chooses the bank of a payout: the beneficiary's own bank, else the bank that stated the name, else the bank with the most
 * money. A payout that may have been sent before can only go through the same bank.
 */
export function routeOf(
  payout: Payout,
  banks: ReadonlyMap<BankCode, TransferBank>,
  state: RoutingState,
  nowMs: number,
): Route {
  const { live, amountMinor, destination, createdAtMs } = payout
  const noBankMs = nowMs < createdAtMs + MINUTE_MS ? NO_BANK_MS : NO_BANK_LATER_MS
  const wait = (text: string, waitMs = noBankMs): Route => {
    return { bank: undefined, text: `waits: ${text}`, waitMs }
  }
  if (state.paused.has('GLOBAL ')) return wait('all payouts are paused', PAUSED_MS)
  if (state.paused.has(`BUSINESS ${payout.businessId}`))
    return wait('payouts of the business are paused', PAUSED_MS)
  const floatOf = (bank: BankCode) => state.floats.get(floatKey(bank, live))
  const open = [...banks.keys()].filter((bank) => payout.bank === undefined || payout.bank === bank)
  if (open.length === 0) return wait('no bank that can pay is connected, answers and grants access')
  const running = open.filter((bank) => !state.paused.has(`BANK ${bank}`))
  if (running.length === 0)
    return wait('payouts through the banks that can pay are paused', PAUSED_MS)
  const funded = running.filter((bank) => (floatOf(bank) ?? amountMinor) >= amountMinor)
  if (funded.length === 0) return wait(`no bank has ${formatAmount(amountMinor)} naira for it`)
  const chosen = (bank: BankCode, text: string) => {
    const float = floatOf(bank)
    if (float !== undefined) state.floats.set(floatKey(bank, live), float - amountMinor)
    return { bank, text }
  }
  const [only] = funded
  assert(only, 'a bank is left')
  if (payout.bank !== undefined) return chosen(only, SENT_BEFORE)
  const own = funded.find((bank) => BANK_FACTS[bank].interbankCode === destination.bankCode)
  if (own !== undefined) return chosen(own, 'it is the bank of the beneficiary')
  if (funded.length === 1) return chosen(only, 'it is the only bank that can pay it')
  const resolved = funded.find((bank) => bank === payout.resolvedBank)
  if (resolved !== undefined) return chosen(resolved, 'it stated the name of the beneficiary')
  const richest = funded.reduce((a, b) => ((floatOf(b) ?? -1n) > (floatOf(a) ?? -1n) ? b : a))
  return chosen(richest, 'it has the most money')
}
