import { BANK_CODES, type BankCode } from '../banks/bank.ts'
import { plainText } from '../banks/bank-fields.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { PayoutContext } from './reserve-payout.ts'
import { transferBanks } from './resolve-name.ts'

/** How often the operator's accounts are read, in milliseconds: by one instance. */
const READ_EVERY_MS = 30_000

const ERROR_MAX = 500

/** Reads what the operator has at each bank that states it. */
export function createReadFloats(context: PayoutContext): Loop {
  const { bankOf, database, log } = context
  return createLoop({
    name: 'bank floats',
    log,
    everyMs: 5_000,
    async turn() {
      for (const live of [true, false]) {
        for (const [bank, { transfers, callTimeoutMs }] of transferBanks(bankOf, live)) {
          if (transfers.readFloat === undefined) continue
          if (!(await claimReading(database.durablePool, bank, live))) continue
          const reading = await transfers.readFloat(AbortSignal.timeout(callTimeoutMs))
          const availableMinor = reading.kind === 'read' ? reading.availableMinor : undefined
          const error = reading.kind === 'read' ? '' : plainText(reading.cause, ERROR_MAX)
          await storeReading(database.durablePool, { bank, live, availableMinor, error })
        }
      }
      return undefined
    },
  })
}

/** @returns whether this instance reads now */
async function claimReading(on: Queryable, bank: BankCode, live: boolean): Promise<boolean> {
  const { rowCount } = await on.query(
    `insert into bank_float (bank, live, error, next_at)
      values ($1, $2, '', now() + $3 * interval '1 millisecond')
      on conflict (bank, live) do update set next_at = excluded.next_at where bank_float.next_at <= now()`,
    [bank, live, READ_EVERY_MS],
  )
  return rowCount === 1
}

/** Keeps the last amount if the account could not be read. */
async function storeReading(
  on: Queryable,
  reading: {
    readonly bank: BankCode
    readonly live: boolean
    readonly availableMinor: bigint | undefined
    readonly error: string
  },
): Promise<void> {
  await on.query(
    `update bank_float set available_minor = coalesce($3, available_minor), error = $4,
        read_at = case when $3::bigint is null then read_at else now() end
      where bank = $1 and live = $2`,
    [reading.bank, reading.live, reading.availableMinor ?? null, reading.error],
  )
}

/** What payouts can be paid from at a bank. */
export interface BankFloat {
  readonly bank: BankCode
  readonly availableMinor: bigint | undefined
  readonly readAtMs: number | undefined
  readonly error: string
  readonly inProgressMinor: bigint
  readonly isPaused: boolean
}

/** The accounts of a mode, one for each bank that can pay. */
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
          where status in ('SUBMITTING', 'UNKNOWN') and payout.bank = served.bank and payout.live = $2) as in_progress_minor,
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
