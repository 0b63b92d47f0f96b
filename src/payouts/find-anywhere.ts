import type { BankCode } from '../banks/bank.ts'
import { plainText } from '../banks/bank-fields.ts'
import type { FoundTransfer, TransferOrder, TransferState } from '../banks/transfer.ts'
import { DAY_MS, MINUTE_MS } from '../core/durations.ts'
import { Fault } from '../core/errors.ts'
import { firstIdAt } from '../core/ids.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { type Payout, READING_MS, UNCLEAR_MS_MAX } from './payout.ts'
import type { PayoutContext } from './reserve-payout.ts'
import { transferBanks } from './resolve-name.ts'

/**
 * The period in which this copy of the database sends payouts (`payout_sender`). A new generation begins when the database
 * was restored, failed over, or replaced by an older copy of its folder. A payout of an earlier generation may have been
 * sent without this copy knowing.
 */
export interface Generation {
  readonly generation: number
  readonly beganAtMs: number
  /** The age of the generation by the database's clock when it was read, and when that was by `performance.now()`. */
  readonly ageMs: number
  readonly readAtMs: number
  /** From this time on, another copy may have sent payouts that this copy does not know. */
  readonly silentSinceMs: number | undefined
}

/** @returns undefined after a failover or restore until the event log has noticed it; nothing may be sent before that */
export async function readGeneration(client: Queryable): Promise<Generation | undefined> {
  const { rows } = await client.query<GenerationRow>({
    name: 'payout-generation',
    text: `select generation as "senderGeneration", round(date_part('epoch', began_at) * 1000) as "beganAtMs",
        round(date_part('epoch', now() - began_at) * 1000) as "ageMs",
        round(date_part('epoch', silent_since) * 1000) as "silentSinceMs"
      from payout_generation()`,
  })
  return toGeneration(rows[0])
}

/** The result of `payout_generation()`. */
export interface GenerationRow {
  readonly senderGeneration: number | null
  readonly beganAtMs: number | null
  readonly ageMs: number | null
  readonly silentSinceMs: number | null
}

export function toGeneration(row: GenerationRow | undefined): Generation | undefined {
  const { senderGeneration, beganAtMs, ageMs, silentSinceMs } = row ?? {}
  if (senderGeneration == null || beganAtMs == null || ageMs == null) return undefined
  return {
    generation: senderGeneration,
    beganAtMs,
    ageMs,
    readAtMs: performance.now(),
    silentSinceMs: silentSinceMs ?? undefined,
  }
}

/**
 * Why a payout whose reference follows from our own records needs an approval after a restore or a failover. The lost history
 * may have paid the same under another reference: a settlement settles again under another id, and the number of an attempt
 * counts attempts that the lost history may have had more of. The bank would not recognize the second payout as a repeat.
 * Empty: there was no restore or failover within a day.
 *
 * @param settlementId the settlement that is paid out: what completed up to a day after it counts, however late its payout
 * is requested; empty: the payout is of no settlement
 * @throws Fault unavailable
 */
export async function repeatReason(on: Queryable, settlementId = ''): Promise<string> {
  // It notes a failover, which may be a moment ago.
  if ((await readGeneration(on)) === undefined) {
    throw new Fault('unavailable', 'The database has just failed over or was restored')
  }
  const { rows } = await on.query<{ is_repeated: boolean }>(
    `select coalesce(coalesce(s.completed_at, now()) < p.repeats_until, false) as is_repeated
      from payout_sender p left join settlement s on s.id = $1`,
    [settlementId],
  )
  return rows[0]?.is_repeated
    ? 'the database was restored or failed over: compare it with what the bank sent out since'
    : ''
}

/**
 * How long a generation has sent, in milliseconds. The clocks of the old and the new primary may differ by hours, and this
 * process measures the difference only every few seconds: so the database states it, and only what passes since is added.
 */
export function ageOf({ ageMs, readAtMs }: Pick<Generation, 'ageMs' | 'readAtMs'>): number {
  return ageMs + performance.now() - readAtMs
}

/**
 * Whether all banks have to be asked about a payout before it is sent, ended, or left to its bank. A payout in SUBMITTING
 * counts too: the lost history may have sent it through another bank later.
 */
export function mayHaveBeenSent(
  { status, generation }: Payout,
  current: Pick<Generation, 'generation'>,
): boolean {
  const isOpen = status === 'PENDING_APPROVAL' || status === 'APPROVED' || status === 'SUBMITTING'
  return isOpen && generation !== current.generation
}

/** Callers repeat within this time what a restore or a failover lost (`repeats_until`). */
const REPEATS_MS = DAY_MS

/**
 * From when on a bank may have been sent a payout, in epoch milliseconds: also before it was requested here, if a caller may
 * have repeated a request that was lost, or its batch or settlement is older. It must not reach back for other payouts: the
 * list of a bank grows without end.
 *
 * @param generation undefined: a failover or a restore is not noticed yet
 */
export function searchFromOf(
  payout: Pick<Payout, 'createdAtMs' | 'batchId' | 'settlementId'>,
  generation: Pick<Generation, 'silentSinceMs' | 'beganAtMs'> | undefined,
): number {
  const { createdAtMs } = payout
  const { silentSinceMs = createdAtMs, beganAtMs = createdAtMs } = generation ?? {}
  const mayBeRepeated = wasWantedBefore(payout, beganAtMs + REPEATS_MS)
  return (mayBeRepeated ? Math.min(createdAtMs, silentSinceMs) : createdAtMs) - MINUTE_MS
}

/** Whether a payout, or its batch or settlement, was wanted before a time. Their ids begin with their times. */
function wasWantedBefore(
  { createdAtMs, batchId, settlementId }: Parameters<typeof searchFromOf>[0],
  atMs: number,
): boolean {
  if (batchId !== '') return batchId < firstIdAt('pba', atMs)
  if (settlementId !== '') return settlementId < firstIdAt('stl', atMs)
  return createdAtMs < atMs
}

/** What all banks together know about a payout. */
export type FoundAnywhere =
  | { readonly kind: 'known'; readonly bank: BankCode; readonly state: TransferState }
  /** No bank knows it, and the consistency windows of all banks have passed. */
  | { readonly kind: 'never sent' }
  | { readonly kind: 'unclear'; readonly cause: string; readonly nextInMs?: number }

const CAUSE_MAX = 400

/** The shortest wait before the banks are asked again: until then, the list of a bank is not read anew. */
const AGAIN_MIN_MS = 1_000

/**
 * Looks up the reference of a payout at each bank that can pay. "Not found" counts once the consistency window of the bank
 * has passed since the generation began, because no other copy of the database has sent anything since then. A bank that
 * could pay until then and is not connected here may know the payout.
 */
export async function findAnywhere(
  { bankOf, log, database }: PayoutContext,
  payout: Payout,
  unsent: Omit<TransferOrder, 'searchFromMs'>,
  generation: Generation,
): Promise<FoundAnywhere> {
  const sinceMs = ageOf(generation)
  const order = { ...unsent, searchFromMs: searchFromOf(payout, generation), mayBeUnsent: true }
  const banks = transferBanks(bankOf, payout.live)
  const asked = await Promise.all(
    Array.from(banks, async ([bank, served]) => {
      const { transfers, callTimeoutMs } = served
      // A list that was read after the window has all that other copies sent.
      const listAgeMsMax = sinceMs - transfers.consistencyMs
      const found = await transfers
        .find({ ...order, listAgeMsMax }, AbortSignal.timeout(callTimeoutMs))
        .catch((error: unknown): FoundTransfer => {
          log.error({ err: error, payoutId: payout.id }, 'bank connector failed to find a payout')
          return { kind: 'unknown', cause: 'an error of this service' }
        })
      const ageMs = found.kind === 'not found' ? (found.ageMs ?? 0) : 0
      return { bank, found, leftMs: transfers.consistencyMs - sinceMs + ageMs }
    }),
  )
  if (asked.length === 0) return { kind: 'unclear', cause: 'no bank that can pay is connected' }
  const missing = await readMissing(
    database.durablePool,
    payout.live,
    [...banks.keys()],
    generation,
  )
  const known = [...asked, ...missing].flatMap(({ bank, found }) =>
    found.kind === 'not found' ? [] : [{ kind: 'known' as const, bank, state: found }],
  )
  const stated = known.filter(({ state }) => state.kind !== 'unknown')
  const paid = stated.find(({ state }) => state.kind === 'paid' || state.kind === 'returned')
  const adopted = paid ?? stated[0]
  if (adopted !== undefined) return adopted
  const unknown = known.find(({ bank }) => bank === payout.bank) ?? known[0]
  if (unknown !== undefined) {
    const isReading = known.some(({ state }) => state.kind === 'unknown' && state.isReading)
    // After a day the payout becomes UNKNOWN at that bank, so that an operator can decide. A payout that awaits an approval
    // waits on.
    if (!isReading && sinceMs > UNCLEAR_MS_MAX && payout.status !== 'PENDING_APPROVAL')
      return unknown
    const cause = 'cause' in unknown.state ? plainText(unknown.state.cause, CAUSE_MAX) : ''
    const text = `${unknown.bank}: ${cause}`
    return { kind: 'unclear', cause: text, ...(isReading && { nextInMs: READING_MS }) }
  }
  const nextInMs = Math.max(...asked.map(({ leftMs }) => leftMs))
  if (nextInMs <= 0) return { kind: 'never sent' }
  return {
    kind: 'unclear',
    cause: 'no bank knows it yet',
    nextInMs: Math.max(nextInMs, AGAIN_MIN_MS),
  }
}

/** The banks whose float this database read until the generation began, or later, and that this instance has not connected. */
async function readMissing(
  on: Queryable,
  live: boolean,
  connected: readonly BankCode[],
  { silentSinceMs, beganAtMs }: Generation,
): Promise<readonly { readonly bank: BankCode; readonly found: FoundTransfer }[]> {
  const { rows } = await on.query<{ bank: BankCode }>(
    `select bank from bank_float where live = $1 and bank <> all($2::text[])
        and next_at > to_timestamp($3::float8 / 1000) - interval '1 hour'
      order by bank`,
    [live, connected, silentSinceMs ?? beganAtMs],
  )
  return rows.map(({ bank }) => ({
    bank,
    found: { kind: 'unknown', cause: 'it is not connected any more' },
  }))
}
