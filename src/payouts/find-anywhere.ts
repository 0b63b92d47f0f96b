import type { BankCode } from '../banks/bank.ts'
import { plainText } from '../banks/bank-fields.ts'
import type { FoundTransfer, TransferOrder, TransferState } from '../banks/transfer.ts'
import { MINUTE_MS } from '../core/durations.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { type Payout, UNCLEAR_MS_MAX } from './payout.ts'
import type { PayoutContext } from './reserve-payout.ts'
import { transferBanks } from './resolve-name.ts'

/**
 * Since when this copy of the database is the one that sends (`payout_sender`). A payout of another generation may have
 * been sent without this copy knowing: the database was restored, failed over, or is an older copy of its folder.
 */
export interface Generation {
  readonly generation: number
  readonly beganAtMs: number
  /** Since when others may have sent payouts that this copy does not know. */
  readonly silentSinceMs: number | undefined
}

/** @returns undefined until the event log has noticed a failover or a restore: nothing may be sent before */
export async function readGeneration(client: Queryable): Promise<Generation | undefined> {
  const { rows } = await client.query<GenerationRow>({
    name: 'payout-generation',
    text: `select generation as "senderGeneration", round(date_part('epoch', began_at) * 1000) as "beganAtMs",
        round(date_part('epoch', silent_since) * 1000) as "silentSinceMs"
      from payout_generation()`,
  })
  return toGeneration(rows[0])
}

/** The result of `payout_generation()`. */
export interface GenerationRow {
  readonly senderGeneration: number | null
  readonly beganAtMs: number | null
  readonly silentSinceMs: number | null
}

export function toGeneration(row: GenerationRow | undefined): Generation | undefined {
  const { senderGeneration, beganAtMs, silentSinceMs } = row ?? {}
  if (senderGeneration == null || beganAtMs == null) return undefined
  return { generation: senderGeneration, beganAtMs, silentSinceMs: silentSinceMs ?? undefined }
}

/**
 * Whether all banks have to be asked before a payout is sent, given up, or left to its bank: one that was being sent may
 * have gone to another bank later.
 */
export function mayHaveBeenSent(
  { status, generation }: Payout,
  current: Pick<Generation, 'generation'>,
): boolean {
  const isOpen = status === 'PENDING_APPROVAL' || status === 'APPROVED' || status === 'SUBMITTING'
  return isOpen && generation !== current.generation
}

/** What all banks together know of a payout. */
export type FoundAnywhere =
  | { readonly kind: 'known'; readonly bank: BankCode; readonly state: TransferState }
  /** No bank knows it, and none can come to know it any more. */
  | { readonly kind: 'never sent' }
  | { readonly kind: 'unclear'; readonly cause: string; readonly nextInMs?: number }

const CAUSE_MAX = 400

/**
 * Asks each bank that can pay for the reference of a payout. "Not found" counts once the consistency window of the bank
 * has passed since the generation began, as nothing was sent by others after that.
 */
export async function findAnywhere(
  { bankOf, clock, log }: PayoutContext,
  payout: Payout,
  unsent: TransferOrder,
  { beganAtMs, silentSinceMs = 0 }: Generation,
): Promise<FoundAnywhere> {
  const sinceMs = clock.now() - beganAtMs
  const searchFromMs = Math.min(payout.createdAtMs, silentSinceMs) - MINUTE_MS
  const order = { ...unsent, searchFromMs }
  const asked = await Promise.all(
    Array.from(transferBanks(bankOf, payout.live), async ([bank, served]) => {
      const { transfers, callTimeoutMs } = served
      const found = await transfers
        .find(order, AbortSignal.timeout(callTimeoutMs))
        .catch((error: unknown): FoundTransfer => {
          log.error({ err: error, payoutId: payout.id }, 'bank connector failed to find a payout')
          return { kind: 'unknown', cause: 'an error of this service' }
        })
      return { bank, found, leftMs: transfers.consistencyMs - sinceMs }
    }),
  )
  if (asked.length === 0) return { kind: 'unclear', cause: 'no bank that can pay is connected' }
  const known = asked.flatMap(({ bank, found }) =>
    found.kind === 'not found' ? [] : [{ kind: 'known' as const, bank, state: found }],
  )
  const stated = known.filter(({ state }) => state.kind !== 'unknown')
  const paid = stated.find(({ state }) => state.kind === 'paid' || state.kind === 'returned')
  const adopted = paid ?? stated[0]
  if (adopted !== undefined) return adopted
  const unknown = known.find(({ bank }) => bank === payout.bank) ?? known[0]
  if (unknown !== undefined) {
    // It is adopted as UNKNOWN in the end, so that an operator can decide.
    if (sinceMs > UNCLEAR_MS_MAX) return unknown
    const cause = 'cause' in unknown.state ? plainText(unknown.state.cause, CAUSE_MAX) : ''
    return { kind: 'unclear', cause: `${unknown.bank}: ${cause}` }
  }
  const nextInMs = Math.max(...asked.map(({ leftMs }) => leftMs))
  if (nextInMs <= 0) return { kind: 'never sent' }
  return { kind: 'unclear', cause: 'no bank knows it yet', nextInMs }
}
