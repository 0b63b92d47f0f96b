import { BANK_CODES, type BankCode } from '../banks/bank.ts'
import { plainText } from '../banks/bank-fields.ts'
import type { FloatReading } from '../banks/transfer.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { INT64_MAX } from '../core/money.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { PayoutContext } from './reserve-payout.ts'
import { transferBanks } from './resolve-name.ts'

/** How often one of the instances reads each account of the operator. */
const READ_EVERY_MS = 30_000

const ERROR_MAX = 500

/** The key of the operator's account at a bank, such as `live PALMPAY`. */
export function floatKey(bank: BankCode, live: boolean): string {
  return `${live ? 'live' : 'test'} ${bank}`
}

/** How long a bank that denied access gets no payouts, even if it states its float: it may deny transfers alone. */
const DENIED_MIN_MS = 60_000

/** How long it gets none if it does not state its float, which some banks never do. */
const DENIED_MAX_MS = 600_000

/** A bank that denied this instance access to transfers. */
export interface Denial {
  readonly atMs: number
  /** The payout that tries the bank again; empty: the next one does; undefined: the bank gets none. */
  readonly triedBy?: string
}

/** By `floatKey`. */
export type Denials = Map<string, Denial>

/**
 * Reads the operator's balance at each bank that states it. A bank that denied this instance access is asked by this
 * instance every few seconds, and gets one payout once it states its balance, or after ten minutes: further ones if it does not
 * deny that one ("half-open").
 */
export function createReadFloats(context: PayoutContext, denials: Denials): Loop {
  const { bankOf, database, log, clock } = context
  return createLoop({
    name: 'bank floats',
    log,
    everyMs: 5_000,
    async turn() {
      for (const live of [true, false]) {
        for (const [bank, { transfers, callTimeoutMs }] of transferBanks(bankOf, live)) {
          if (transfers.readFloat === undefined) continue
          const key = floatKey(bank, live)
          const readAtMs = await claimReading(database.durablePool, bank, live)
          const denial = denials.get(key)
          const isDenied = denial !== undefined && denial.triedBy !== ''
          if (readAtMs === undefined && !isDenied) continue
          const reading = await transfers.readFloat(AbortSignal.timeout(callTimeoutMs))
          const deniedMs = reading.kind === 'read' ? DENIED_MIN_MS : DENIED_MAX_MS
          if (isDenied && clock.now() >= denial.atMs + deniedMs)
            denials.set(key, { ...denial, triedBy: '' })
          if (readAtMs === undefined) continue
          await storeReading(database.durablePool, { bank, live, reading, readAtMs })
        }
      }
      return undefined
    },
  })
}

/** @returns when this instance begins to read, by the clock of the database; undefined: it does not */
async function claimReading(
  on: Queryable,
  bank: BankCode,
  live: boolean,
): Promise<number | undefined> {
  const { rows } = await on.query<{ at_ms: number }>(
    `insert into bank_float (bank, live, error, next_at)
      values ($1, $2, '', now() + $3 * interval '1 millisecond')
      on conflict (bank, live) do update set next_at = excluded.next_at
        -- A time far ahead is that of another primary's clock.
        where bank_float.next_at <= now() or bank_float.next_at > excluded.next_at
      returning floor(date_part('epoch', now()) * 1000) as at_ms`,
    [bank, live, READ_EVERY_MS],
  )
  return rows[0]?.at_ms
}

/** The amount that was read, or why there is none. A bank may state an amount that the database cannot store. */
function storable(reading: FloatReading) {
  if (reading.kind !== 'read') {
    return { availableMinor: undefined, error: plainText(reading.cause, ERROR_MAX) }
  }
  const { availableMinor } = reading
  return availableMinor <= INT64_MAX && availableMinor >= -INT64_MAX
    ? { availableMinor, error: '' }
    : { availableMinor: undefined, error: 'the bank states an amount that is too large' }
}

/**
 * Stores a reading. Keeps the last amount if the account could not be read. The time of the reading is when the call began:
 * the amount may lack what the bank paid during the call.
 */
async function storeReading(
  on: Queryable,
  {
    bank,
    live,
    reading,
    readAtMs,
  }: {
    readonly bank: BankCode
    readonly live: boolean
    readonly reading: FloatReading
    readonly readAtMs: number
  },
): Promise<void> {
  const { availableMinor, error } = storable(reading)
  await on.query(
    `update bank_float set available_minor = coalesce($3, available_minor), error = $4,
        read_at = case when $3::bigint is null then read_at else to_timestamp($5::float8 / 1000) end
      where bank = $1 and live = $2`,
    [bank, live, availableMinor ?? null, error, readAtMs],
  )
}

/** The operator's account at a bank, from which payouts are paid. */
export interface BankFloat {
  readonly bank: BankCode
  readonly availableMinor: bigint | undefined
  readonly readAtMs: number | undefined
  readonly error: string
  readonly inProgressMinor: bigint
  readonly isPaused: boolean
}

/** Lists the floats of a mode, one for each bank that can pay. */
export async function listFloats(
  { bankOf }: Pick<PayoutContext, 'bankOf'>,
  on: Queryable,
  live: boolean,
): Promise<BankFloat[]> {
  const banks = [...transferBanks(bankOf, live).keys()]
  const { rows } = await on.query<{
    bank: BankCode
    available_minor: string | null
    read_at_ms: number | null
    error: string
    in_progress_minor: string
    is_paused: boolean
  }>(
    `select served.bank, available_minor, round(date_part('epoch', read_at) * 1000) as read_at_ms,
        coalesce(error, '') as error,
        (select coalesce(sum(amount_minor), 0) from payout
          where status in ('SUBMITTING', 'UNKNOWN') and payout.bank = served.bank and payout.live = $2)
          + (select coalesce(sum(amount_minor), 0) from payout
            where status = 'PAID' and payout.bank = served.bank and payout.live = $2 and completed_at >= read_at)
          as in_progress_minor,
        exists (select from payout_pause where scope = 'GLOBAL' or (scope = 'BANK' and target = served.bank)) as is_paused
      from unnest($1::text[]) as served (bank) left join bank_float on bank_float.bank = served.bank and bank_float.live = $2`,
    [banks, live],
  )
  return rows
    .map((row) => ({
      bank: row.bank,
      availableMinor: row.available_minor === null ? undefined : BigInt(row.available_minor),
      readAtMs: row.read_at_ms ?? undefined,
      error: row.error,
      inProgressMinor: BigInt(row.in_progress_minor),
      isPaused: row.is_paused,
    }))
    .sort((a, b) => BANK_CODES.indexOf(a.bank) - BANK_CODES.indexOf(b.bank))
}
