import { systemActor } from '../auth/caller.ts'
import type { BankCode } from '../banks/bank.ts'
import type { FoundTransfer, SendResult, TransferOrder } from '../banks/transfer.ts'
import { assert } from '../core/errors.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { withTimeout } from '../core/with-timeout.ts'
import { createIsolatingBatcher } from '../postgres/batcher.ts'
import { inTransaction, type Queryable } from '../postgres/in-transaction.ts'
import {
  findAnywhere,
  type Generation,
  type GenerationRow,
  mayHaveBeenSent,
  toGeneration,
} from './find-anywhere.ts'
import { afterAsking, afterFindingAnywhere, afterSending } from './outcome.ts'
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

/** How many payouts one instance sends or asks about at the same time. */
const IN_PROGRESS_MAX = 64

/** What a bank may take beyond its time-outs, and we to record the result, before another instance asks. */
const LEASE_MARGIN_MS = 20_000

/** How long to wait for the event log to notice a failover or a restore. */
const NOT_CURRENT_MS = 100

/** How long a stop waits for the banks. */
const STOP_MAX_MS = 5_000

interface SenderOptions {
  /** Whether the circuit breaker of a bank lets calls pass. */
  readonly isOpen: (bank: BankCode, live: boolean) => boolean
  /** Called once a payout is paid: the sandbox credits accounts of our own. */
  readonly onPaid: (payout: Payout) => Promise<void>
}

/**
 * Sends payouts, asks about those whose result is unknown, and about paid ones that may be returned.
 *
 * Every instance runs this loop. A claim is committed before the bank is called, with a lease: a payout whose instance
 * died is UNKNOWN once the lease ends, and only asked about. An instance that comes late changes nothing, as another
 * one has claimed the payout since (`claims`). After a restore or a failover the banks are asked first about what may
 * have been sent without this copy of the database knowing (`find-anywhere.ts`).
 */
export function createSendPayouts(context: PayoutContext, options: SenderOptions): Loop {
  const { log } = context
  const change = createChange(context)
  const inProgress = new Set<Promise<void>>()
  const loop = createLoop({
    name: 'payouts',
    log,
    async turn() {
      const free = IN_PROGRESS_MAX - inProgress.size
      if (free === 0) return undefined
      const claimed = await claimDue(context, options, free)
      if (claimed === undefined) return NOT_CURRENT_MS
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
      // What does not end in time is asked about once its lease has ended.
      await withTimeout(Promise.allSettled([...inProgress]), STOP_MAX_MS)
    },
  }
}

/** Changes a payout that this instance has claimed, unless another one has taken it up since. */
type Change = (changing: Changing) => Promise<{ readonly after: Payout | undefined }>

/** The results of banks that arrive while others are written are written together, in one commit. */
function createChange({ database, clock }: PayoutContext): Change {
  return createIsolatingBatcher<Changing, { readonly after: Payout | undefined }>({
    async run(calls) {
      const changes = calls.map(({ item }) => item)
      const changed = await changePayouts(database.durablePool, changes, clock.now())
      for (const [at, call] of calls.entries()) call.result = { after: changed[at] }
    },
    itemsMax: IN_PROGRESS_MAX,
    batchesMax: 1,
    queueMax: IN_PROGRESS_MAX,
    deadlineMs: LEASE_MARGIN_MS,
  })
}

/** What handling a claimed payout needs. */
interface SenderContext extends PayoutContext, SenderOptions {
  readonly change: Change
}

/** A payout that this instance has claimed. */
interface Claimed {
  readonly payout: Payout
  /** When the claim began, by the monotonic clock, which may stand still while the machine is suspended, and by the other. */
  readonly sinceMs: number
  readonly atMs: number
  readonly leaseMs: number
  readonly generation: Generation
}

/** Claims what is due, in the order in which it became so. @returns undefined if nothing may be sent yet */
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

/** Locks what is due, and reads the generation in the same statement, so that both are about the same server. */
async function lockDue(client: Queryable, limit: number) {
  const { rows } = await client.query<GenerationRow & (PayoutRow | { readonly id: null })>({
    name: 'payout-claim',
    text: `select sender.generation as "senderGeneration",
        round(date_part('epoch', sender.began_at) * 1000) as "beganAtMs",
        round(date_part('epoch', sender.silent_since) * 1000) as "silentSinceMs", due.*
      from payout_generation() sender left join lateral (
        select ${PAYOUT_COLUMNS} from payout where next_at <= now()
        order by next_at limit $1 for update skip locked
      ) due on true`,
    values: [limit],
  })
  const due = rows.flatMap(({ senderGeneration: _, beganAtMs: __, silentSinceMs: ___, ...row }) =>
    row.id === null ? [] : toPayout(row),
  )
  return { generation: toGeneration(rows[0]), due }
}

/** How a due payout is taken up. */
function claimOf(
  { bankOf }: PayoutContext,
  { isOpen }: SenderOptions,
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
    const step = 'the instance that sent it ended before it had the result'
    return { status: 'UNKNOWN', claimed: true, nextInMs: leaseMs, step, detail: step }
  }
  assert(routing, 'routing is read for approved payouts')
  const banks = new Map([...transferBanks(bankOf, live)].filter(([code]) => isOpen(code, live)))
  const route = routeOf(payout, banks, routing)
  if (route.bank === undefined) {
    return { status, nextInMs: route.waitMs, detail: route.text }
  }
  return {
    status: 'SUBMITTING',
    claimed: true,
    submitted: true,
    attempts: 0,
    bank: route.bank,
    routing: route.text,
    nextInMs: leaseOf(banks.get(route.bank)),
    step: `sent through ${route.bank}: ${route.text}`,
    detail: '',
  }
}

/** A name enquiry and a transfer, or a query, and what follows them. */
function leaseOf(bank: TransferBank | undefined): number {
  return 2 * (bank?.callTimeoutMs ?? 0) + LEASE_MARGIN_MS
}

/** @returns whether it is due again at once */
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
    return record(context, sent, afterSending(sent, result))
  }
  const found = await askBank(context, payout)
  return record(context, payout, afterAsking(context, payout, found))
}

/** Sends a payout whose claim is committed. Every failure is a result. */
async function sendToBank(
  context: PayoutContext,
  { sinceMs, atMs, leaseMs }: Claimed,
  payout: Payout,
): Promise<SendResult> {
  const bank = bankOfPayout(context, payout)
  if (bank === undefined) return NOT_CONNECTED
  // The process may have been stopped meanwhile. Once the lease has ended another instance asks the bank, and an
  // operator may decide that the bank never saw it.
  const elapsedMs = Math.max(performance.now() - sinceMs, context.clock.now() - atMs)
  if (elapsedMs > leaseMs - bank.callTimeoutMs) {
    return { kind: 'not sent', cause: 'this instance stood still for too long' }
  }
  const signal = AbortSignal.timeout(bank.callTimeoutMs)
  return bank.transfers.send(orderOf(payout), signal).catch((error: unknown): SendResult => {
    context.log.error({ err: error, payoutId: payout.id }, 'bank connector failed to send a payout')
    return { kind: 'unknown', cause: 'an error of this service' }
  })
}

const NOT_CONNECTED = { kind: 'not sent', cause: 'the bank is not connected any more' } as const

/**
 * Has the bank that sends a payout state the name of the account again, if another bank did or it was long ago, and stores
 * what its transfers need of that: the bank may only find the payout by it.
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
  if (enquiry.kind === 'unavailable') return { kind: 'not sent', cause: enquiry.cause }
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
  return after ?? { kind: 'not sent', cause: 'another instance has taken it up' }
}

function isSameName(a: string, b: string): boolean {
  const plain = (name: string) => name.toLowerCase().split(/\s+/).filter(Boolean).sort().join(' ')
  return plain(a) === plain(b)
}

function bankOfPayout({ bankOf }: PayoutContext, { bank, live }: Payout): TransferBank | undefined {
  return bank && transferBanks(bankOf, live).get(bank)
}

function orderOf({
  bankReference,
  amountMinor,
  destination,
  narration,
  enquiryReference,
}: Payout): TransferOrder {
  return {
    reference: bankReference,
    amountMinor,
    beneficiary: destination,
    narration,
    enquiryReference,
  }
}

/** Asks the bank of a payout what became of it. */
export async function askBank(context: PayoutContext, payout: Payout): Promise<FoundTransfer> {
  const bank = bankOfPayout(context, payout)
  if (bank === undefined) return { kind: 'unknown', cause: 'the bank is not connected any more' }
  const signal = AbortSignal.timeout(bank.callTimeoutMs)
  const found = await bank.transfers
    .find(orderOf(payout), signal)
    .catch((error: unknown): FoundTransfer => {
      context.log.error(
        { err: error, payoutId: payout.id },
        'bank connector failed to find a payout',
      )
      return { kind: 'unknown', cause: 'an error of this service' }
    })
  if (found.kind !== 'not found') return found
  const sinceMs = context.clock.now() - (payout.submittedAtMs ?? payout.createdAtMs)
  const { consistencyMs } = bank.transfers
  if (sinceMs > consistencyMs) return found
  return { kind: 'unknown', cause: `${found.cause}; it may not know it yet` }
}

/**
 * Stores what became of a payout, unless another instance has taken it up since.
 *
 * @returns whether it is due again at once
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

/** Changes a claimed payout. A refund of a payment that is pending or held takes a transaction of its own. */
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
