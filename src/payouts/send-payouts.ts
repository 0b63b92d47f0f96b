import { systemActor } from '../auth/caller.ts'
import type { BankCode } from '../banks/bank.ts'
import type { FoundTransfer, SendResult, TransferOrder } from '../banks/transfer.ts'
import { withTimeout } from '../core/concurrency.ts'
import { assert } from '../core/errors.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { createIsolatingBatcher } from '../postgres/batcher.ts'
import { inTransaction, type Queryable } from '../postgres/in-transaction.ts'
import { isDeadlock } from '../postgres/is-retryable.ts'
import {
  ageOf,
  findAnywhere,
  type Generation,
  type GenerationRow,
  mayHaveBeenSent,
  searchFromOf,
  toGeneration,
} from './find-anywhere.ts'
import { type Denials, floatKey } from './float.ts'
import { afterAsking, afterFindingAnywhere, afterSending, waitingDetail } from './outcome.ts'
import { eventKindOf, type Payout } from './payout.ts'
import { completePaidReturn } from './refund-transaction.ts'
import type { PayoutContext } from './reserve-payout.ts'
import { RESOLUTION_MS, type TransferBank, transferBanks } from './resolve-name.ts'
import { type RoutingState, readRouting, routeOf } from './route-payout.ts'
import {
  type Changing,
  changeLocked,
  changePayout,
  changePayouts,
  PAYOUT_COLUMNS,
  type PayoutChange,
  type PayoutRow,
  toPayout,
} from './store.ts'

/** The most payouts that one instance handles at the same time. */
const IN_PROGRESS_MAX = 64

/** The shortest time between two claims, so that payouts are claimed in groups. A bank call takes longer than this. */
const CLAIM_EVERY_MS = 100

/** How long a result waits for the results of other payouts, to be written with them. */
const RESULT_LINGER_MS = 10

/** The time beyond the time-outs of the bank in which the result must be recorded, before another instance asks the bank. */
const LEASE_MARGIN_MS = 20_000

/** How long to wait for the event log to notice a failover or a restore. */
const NOT_CURRENT_MS = 100

/** How long a stop waits for the banks. */
const STOP_MAX_MS = 5_000

export interface SenderOptions {
  /** Whether the circuit breaker of a bank lets calls pass. */
  readonly isOpen: (bank: BankCode, live: boolean) => boolean
  /** Banks that denied access get no payouts until their floats can be read again, and then one. */
  readonly denials: Denials
  /** Called once a payout is paid, so that the sandbox can credit our own virtual accounts. */
  readonly onPaid: (payout: Payout) => Promise<void>
}

/**
 * Sends payouts, and asks the banks about payouts whose result is unknown and about paid payouts that may be returned.
 *
 * Every instance runs this loop. A claim with a lease is committed before the bank is called. If the instance dies, the
 * payout becomes UNKNOWN once the lease ends, and the bank is only asked for the result. An instance that comes too late
 * changes nothing, because another instance has claimed the payout since (`claims`). After a restore or a failover, the
 * banks are first asked about payouts that may have been sent without this copy of the database knowing
 * (`find-anywhere.ts`).
 */
export function createSendPayouts(context: PayoutContext, options: SenderOptions): Loop {
  const { log } = context
  const change = createChange(context)
  const inProgress = new Set<Promise<void>>()
  let claimsAgainMs = 0
  const loop = createLoop({
    name: 'payouts',
    log,
    async turn() {
      const free = IN_PROGRESS_MAX - inProgress.size
      if (free === 0) return undefined
      const waitMs = claimsAgainMs - performance.now()
      if (waitMs > 0) return waitMs
      claimsAgainMs = performance.now() + CLAIM_EVERY_MS
      const claimed = await claimDue(context, options, free)
      if (claimed === undefined) return NOT_CURRENT_MS
      // What is only postponed, or has expired, must not hold up what can be sent.
      if (claimed.tasks.length === 0) claimsAgainMs = 0
      for (const each of claimed.tasks) {
        const task = handle({ ...context, ...options, change }, each)
          .catch((error: unknown) => {
            log.error(
              { err: error, payoutId: each.payout.id },
              'a payout could not be handled; the bank is asked later',
            )
            return false
          })
          .then((isDue) => {
            const wasFull = inProgress.size === IN_PROGRESS_MAX
            inProgress.delete(task)
            if (wasFull || isDue) loop.wake()
          })
        inProgress.add(task)
      }
      return claimed.taken === free ? 0 : undefined
    },
  })
  return {
    ...loop,
    async stop() {
      await loop.stop()
      // For payouts that do not end in time, another instance asks the bank once the lease has ended.
      await withTimeout(Promise.allSettled([...inProgress]), STOP_MAX_MS)
    },
  }
}

/** Changes a payout that this instance has claimed. `after` is undefined if another instance has claimed it since. */
type Change = (changing: Changing) => Promise<{ readonly after: Payout | undefined }>

/** Batches the results that arrive within a few milliseconds, or during a commit. */
function createChange({ database, clock }: PayoutContext): Change {
  return createIsolatingBatcher<Changing, { readonly after: Payout | undefined }>({
    async run(calls) {
      const changes = calls.map(({ item }) => item)
      const changed = await changePayouts(database.durablePool, changes, clock.now()).catch(
        (error: unknown) => {
          // Not retryable, so that the batch is halved and written again.
          if (isDeadlock(error)) throw new Error('a deadlock over results', { cause: error })
          throw error
        },
      )
      for (const [at, call] of calls.entries()) call.result = { after: changed[at] }
    },
    itemsMax: IN_PROGRESS_MAX,
    batchesMax: 1,
    queueMax: IN_PROGRESS_MAX,
    lingerMs: RESULT_LINGER_MS,
    deadlineMs: LEASE_MARGIN_MS,
  })
}

interface SenderContext extends PayoutContext, SenderOptions {
  readonly change: Change
}

/** A payout that this instance has claimed. */
interface Claimed {
  readonly payout: Payout
  /** When the claim began, by the monotonic clock, which may stop while the machine is suspended, and by the wall clock. */
  readonly sinceMs: number
  readonly atMs: number
  readonly leaseMs: number
  readonly generation: Generation
}

/** Claims due payouts, the longest due first. @returns undefined if nothing may be sent yet */
async function claimDue(
  context: PayoutContext,
  options: SenderOptions,
  limit: number,
): Promise<{ readonly tasks: readonly Claimed[]; readonly taken: number } | undefined> {
  const { database, clock, onCommit, count } = context
  const sinceMs = performance.now()
  const atMs = clock.now()
  const result = await inTransaction(database.durablePool, async (client) => {
    const { generation, due } = await lockDue(client, limit)
    if (generation === undefined) return undefined
    const routing = due.some(({ status }) => status === 'APPROVED')
      ? await readRouting(client, due)
      : undefined
    const changes = due.map((before) => {
      const change = claimOf(context, options, before, { generation, routing })
      return { before, change }
    })
    const changed = await changeLocked(client, changes, clock.now())
    const claimed = changed.map((payout, at) => ({ payout, ...(changes[at] as Changing) }))
    return { generation, claimed }
  })
  if (result === undefined) return undefined
  const { generation, claimed } = result
  const moved = claimed.filter(({ payout, before }) => payout.status !== before.status)
  for (const { payout } of moved) count(payout)
  if (moved.some(({ payout }) => eventKindOf(payout.purpose, payout.status))) onCommit()
  const tasks = claimed
    .filter(({ change }) => change.claimed)
    .map(({ payout, change: { nextInMs: leaseMs = 0 } }): Claimed => {
      return { payout, sinceMs, atMs, leaseMs, generation }
    })
  return { tasks, taken: claimed.length }
}

/** Locks due payouts. Reads the generation in the same statement, so that both come from the same server. */
async function lockDue(client: Queryable, limit: number) {
  const { rows } = await client.query<GenerationRow & (PayoutRow | { readonly id: null })>({
    name: 'payout-claim',
    text: `select sender.generation as "senderGeneration",
        round(date_part('epoch', sender.began_at) * 1000) as "beganAtMs",
        round(date_part('epoch', now() - sender.began_at) * 1000) as "ageMs",
        round(date_part('epoch', sender.silent_since) * 1000) as "silentSinceMs", due.*
      from payout_generation() sender
      -- A new pause waits for this lock (pauses.ts).
      cross join pg_advisory_xact_lock_shared(hashtextextended('payout claims', 0)) left join lateral (
        select ${PAYOUT_COLUMNS} from payout where next_at <= now()
        order by next_at limit $1 for update skip locked
      ) due on true`,
    values: [limit],
  })
  const due = rows.flatMap(
    ({ senderGeneration: _, beganAtMs: __, ageMs: ___, silentSinceMs: ____, ...row }) =>
      row.id === null ? [] : toPayout(row),
  )
  return { generation: toGeneration(rows[0]), due }
}

/** The change that claims, expires or postpones a due payout. */
function claimOf(
  { bankOf, clock }: PayoutContext,
  { isOpen, denials }: SenderOptions,
  payout: Payout,
  {
    generation,
    routing,
  }: { readonly generation: Generation; readonly routing: RoutingState | undefined },
): PayoutChange {
  const { status, bank, live } = payout
  if (mayHaveBeenSent(payout, generation)) {
    const leaseMs = Math.max(...[...transferBanks(bankOf, live).values()].map(leaseOf), 0)
    return { status, claimed: true, nextInMs: leaseMs }
  }
  if (status === 'PENDING_APPROVAL') {
    return { status: 'EXPIRED', step: 'it was not approved in time' }
  }
  if (status !== 'APPROVED') {
    const leaseMs = leaseOf(bank && transferBanks(bankOf, live).get(bank))
    if (status !== 'SUBMITTING') return { status, claimed: true, nextInMs: leaseMs }
    const step = 'the instance that sent it ended before it received the result'
    return { status: 'UNKNOWN', claimed: true, attempts: 0, nextInMs: leaseMs, step, detail: step }
  }
  assert(routing, 'routing is read for approved payouts')
  const grantsAccess = (code: BankCode) => {
    const denial = denials.get(floatKey(code, live))
    return denial === undefined || denial.triedBy === ''
  }
  const banks = new Map(
    [...transferBanks(bankOf, live)].filter(([code]) => isOpen(code, live) && grantsAccess(code)),
  )
  const route = routeOf(payout, banks, routing, clock.now())
  if (route.bank === undefined) {
    return { status, nextInMs: route.waitMs, detail: waitingDetail(payout, route.text) }
  }
  const key = floatKey(route.bank, live)
  if (denials.has(key)) denials.set(key, { atMs: clock.now(), triedBy: payout.id })
  // If nothing was sent through the same bank the last time, the history already states the bank and the cause.
  const isRepeated = payout.attempts > 0 && payout.detail.startsWith(`${route.bank}: `)
  return {
    status: 'SUBMITTING',
    claimed: true,
    submitted: true,
    bank: route.bank,
    routing: route.text,
    nextInMs: leaseOf(banks.get(route.bank)),
    ...(!isRepeated && { step: `sent through ${route.bank}: ${route.text}`, detail: '' }),
  }
}

/** The lease covers two calls of the bank (a name enquiry and a transfer) and the recording of the result. */
function leaseOf(bank: TransferBank | undefined): number {
  return 2 * (bank?.callTimeoutMs ?? 0) + LEASE_MARGIN_MS
}

/** @returns whether the payout is due again at once */
async function handle(context: SenderContext, claimed: Claimed): Promise<boolean> {
  const { payout, generation } = claimed
  if (mayHaveBeenSent(payout, generation)) {
    const found = await findAnywhere(context, payout, orderOf(payout), generation)
    return record(context, payout, afterFindingAnywhere(payout, found, generation))
  }
  if (payout.status === 'SUBMITTING') {
    const named = await nameAtBank(context, payout)
    const [sent, result] =
      'kind' in named ? [payout, named] : [named, await sendToBank(context, claimed, named)]
    noteAccess(context, payout, result)
    return record(context, sent, afterSending(sent, result))
  }
  const found = await askBank(context, payout, generation)
  return record(context, payout, afterAsking(context, payout, found))
}

/**
 * Keeps further payouts away from a bank that denies access, if its float will show that it grants it again, until the payout
 * that tries it then is not denied.
 */
function noteAccess(context: SenderContext, payout: Payout, result: SendResult): void {
  const { denials, clock } = context
  const { id, bank, live } = payout
  if (bank === undefined) return
  const key = floatKey(bank, live)
  const canBeAsked = bankOfPayout(context, payout)?.transfers.readFloat !== undefined
  if ('refusal' in result && result.refusal === 'access') {
    if (canBeAsked) denials.set(key, { atMs: clock.now() })
  } else if (result.kind !== 'not sent' && denials.get(key)?.triedBy === id) denials.delete(key)
}

/** Sends a payout whose claim is committed. Every failure is a result. */
async function sendToBank(
  context: PayoutContext,
  { sinceMs, atMs, leaseMs }: Claimed,
  payout: Payout,
): Promise<SendResult> {
  const bank = bankOfPayout(context, payout)
  if (bank === undefined) return NOT_CONNECTED
  // The process may have been suspended since the claim. Once the lease has ended, another instance asks the bank, and an
  // operator may decide that the bank never saw the payout, so this instance must not send it any more.
  const elapsedMs = Math.max(performance.now() - sinceMs, context.clock.now() - atMs)
  if (elapsedMs > leaseMs - bank.callTimeoutMs) {
    return { kind: 'not sent', cause: 'this instance was suspended for too long' }
  }
  const signal = AbortSignal.timeout(bank.callTimeoutMs)
  return bank.transfers.send(orderOf(payout), signal).catch((error: unknown): SendResult => {
    context.log.error({ err: error, payoutId: payout.id }, 'bank connector failed to send a payout')
    return { kind: 'unknown', cause: 'an error of this service' }
  })
}

const NOT_CONNECTED = { kind: 'not sent', cause: 'the bank is not connected any more' } as const

/**
 * Repeats the name enquiry at the bank that sends the payout, if another bank answered the first one or it has expired.
 * Stores the new enquiry reference before the payout is sent, because the bank may find the payout only by that reference.
 *
 * @returns the payout to send, or why nothing was sent
 */
async function nameAtBank(context: SenderContext, payout: Payout): Promise<Payout | SendResult> {
  const { clock } = context
  const served = bankOfPayout(context, payout)
  if (served === undefined) return NOT_CONNECTED
  const { transfers, callTimeoutMs } = served
  const { destination, resolvedBank, bank, createdAtMs } = payout
  const isFresh = clock.now() < createdAtMs + RESOLUTION_MS
  if (resolvedBank === bank && isFresh) return payout
  const enquiry = await transfers.enquireName(destination, AbortSignal.timeout(callTimeoutMs))
  if (enquiry.kind === 'unavailable') {
    const { cause, refusal } = enquiry
    return { kind: 'not sent', cause, ...(refusal && { refusal }) }
  }
  if (enquiry.kind === 'not found') {
    return { kind: 'failed', reason: 'beneficiary_rejected', cause: enquiry.cause }
  }
  if (!isSameName(enquiry.accountName, destination.accountName)) {
    const cause = `the name of the account is "${enquiry.accountName}" now`
    return { kind: 'failed', reason: 'beneficiary_rejected', cause }
  }
  const { enquiryReference } = enquiry
  const nextInMs = 2 * callTimeoutMs + LEASE_MARGIN_MS
  const change = { status: payout.status, nextInMs, enquiryReference }
  const { after } = await context.change({ before: payout, change })
  return after ?? { kind: 'not sent', cause: 'another instance has claimed the payout' }
}

function isSameName(a: string, b: string): boolean {
  const plain = (name: string) =>
    name.normalize('NFC').toLowerCase().split(/\s+/).filter(Boolean).sort().join(' ')
  return plain(a) === plain(b)
}

function bankOfPayout({ bankOf }: PayoutContext, { bank, live }: Payout): TransferBank | undefined {
  return bank && transferBanks(bankOf, live).get(bank)
}

export function orderOf(payout: Payout): TransferOrder {
  const { bankReference, amountMinor, destination, narration, enquiryReference } = payout
  return {
    reference: bankReference,
    amountMinor,
    beneficiary: destination,
    narration,
    enquiryReference,
    searchFromMs: searchFromOf(payout, undefined),
  }
}

/**
 * Asks the bank of a payout for its result. "Not found" counts once the bank's consistency window has passed since the payout
 * was sent and since the generation began, because the time of sending may be that of another primary's clock.
 *
 * @param generation undefined: a failover or a restore is not noticed yet
 */
export async function askBank(
  context: PayoutContext,
  payout: Payout,
  generation: Generation | undefined,
): Promise<FoundTransfer> {
  const bank = bankOfPayout(context, payout)
  if (bank === undefined) return { kind: 'unknown', cause: 'the bank is not connected any more' }
  const signal = AbortSignal.timeout(bank.callTimeoutMs)
  const found = await bank.transfers
    .find({ ...orderOf(payout), searchFromMs: searchFromOf(payout, generation) }, signal)
    .catch((error: unknown): FoundTransfer => {
      context.log.error(
        { err: error, payoutId: payout.id },
        'bank connector failed to find a payout',
      )
      return { kind: 'unknown', cause: 'an error of this service' }
    })
  if (found.kind !== 'not found') return found
  const sentAtMs = payout.submittedAtMs ?? payout.createdAtMs
  const sinceMs = generation && ageOf(generation) - Math.max(0, sentAtMs - generation.beganAtMs)
  const { consistencyMs } = bank.transfers
  if (sinceMs !== undefined && sinceMs - (found.ageMs ?? 0) > consistencyMs) return found
  return { kind: 'unknown', cause: `${found.cause}; it may not know it yet` }
}

/**
 * Stores the changes of a payout, unless another instance has claimed it since.
 *
 * @returns whether the payout is due again at once
 */
async function record(
  context: SenderContext,
  payout: Payout,
  changes: readonly PayoutChange[],
): Promise<boolean> {
  const { log, count, onCommit, onPaid } = context
  let current = payout
  for (const change of changes) {
    const after = await changeClaimed(context, current, change)
    if (after === undefined) {
      log.warn(
        { payoutId: payout.id },
        'another instance has taken up a payout: this one came too late',
      )
      return false
    }
    if (after.status === 'MANUAL_REVIEW' && current.status !== 'MANUAL_REVIEW') {
      log.warn(
        { payoutId: payout.id, bank: after.bank, cause: after.detail },
        'payout needs manual review: see inflow payout resolve',
      )
    }
    if (after.status !== current.status) {
      count(after)
      if (eventKindOf(after.purpose, after.status) !== undefined) onCommit()
    }
    current = after
  }
  if (payout.status !== 'PAID' && current.status === 'PAID') await onPaid(current)
  return changes.at(-1)?.nextInMs === 0
}

/** Changes a claimed payout. A payout from another source than `available` needs a transaction of its own. */
async function changeClaimed(
  { change: changeTogether, database, clock, encrypter }: SenderContext,
  before: Payout,
  change: PayoutChange,
): Promise<Payout | undefined> {
  if (before.source === 'available') return (await changeTogether({ before, change })).after
  const nowMs = clock.now()
  return changePayout(database.durablePool, before, change, nowMs, (client, paid) =>
    completePaidReturn(client, paid, systemActor(encrypter), nowMs),
  )
}
