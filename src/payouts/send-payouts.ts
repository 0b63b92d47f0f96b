import { systemActor } from '../auth/caller.ts'
import { BANK_FACTS, type BankCode } from '../banks/bank.ts'
import { plainText } from '../banks/bank-fields.ts'
import type { FoundTransfer, SendResult, TransferOrder, TransferState } from '../banks/transfer.ts'
import { HOUR_MS } from '../core/durations.ts'
import { assert } from '../core/errors.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { formatAmount } from '../core/money.ts'
import { withTimeout } from '../core/with-timeout.ts'
import { createIsolatingBatcher } from '../postgres/batcher.ts'
import { inTransaction, type Queryable } from '../postgres/in-transaction.ts'
import type { PayoutContext } from './create-payout.ts'
import {
  type FoundAnywhere,
  findAnywhere,
  type Generation,
  type GenerationRow,
  mayHaveBeenSent,
  toGeneration,
} from './find-anywhere.ts'
import {
  askAgainMs,
  eventKindOf,
  NEVER_SEEN,
  type Payout,
  RETURN_CHECKS_HOURS,
  UNCLEAR_MS_MAX,
} from './payout.ts'
import { completePaidReturn } from './refund-transaction.ts'
import { RESOLUTION_MS, type TransferBank, transferBanks } from './resolve-name.ts'
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

/** How long to wait before a payout that no bank can take is looked at again. */
const NO_BANK_MS = 5_000

/** How long to wait for the event log to notice a failover or a restore. */
const NOT_CURRENT_MS = 100

/** How long to wait before a paused payout is looked at again: the end of a pause makes it due at once. */
const PAUSED_MS = 60_000

/** How long a stop waits for the banks. */
const STOP_MAX_MS = 5_000

const DETAIL_MAX = 500

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
  /** When the claim began, by the monotonic clock. */
  readonly sinceMs: number
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
      return { payout, sinceMs, leaseMs, generation }
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

/** What is paused, and what each bank has, in one snapshot with the claimed payouts. */
interface RoutingState {
  /** `GLOBAL `, `BANK …` and `BUSINESS …`. */
  readonly paused: ReadonlySet<string>
  /** What is left at each bank of what was last read, in kobo, by `live BANK` or `test BANK`. Undefined: not known. */
  readonly floats: Map<string, bigint>
}

/** Why a payout that is sent again goes to its bank. */
const SENT_BEFORE = 'it was sent there before'

async function readRouting(client: Queryable, due: readonly Payout[]): Promise<RoutingState> {
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

function floatKey({ bank, live }: { readonly bank: string; readonly live: boolean }): string {
  return `${live ? 'live' : 'test'} ${bank}`
}

type Route =
  | { readonly bank: BankCode; readonly text: string }
  | { readonly bank: undefined; readonly text: string; readonly waitMs: number }

/**
 * Chooses the bank: the beneficiary's own, else the one that stated the name, else the one with the most money. One that
 * may have been sent before goes to its bank alone.
 */
function routeOf(
  payout: Payout,
  banks: ReadonlyMap<BankCode, TransferBank>,
  state: RoutingState,
): Route {
  const { live, amountMinor, destination } = payout
  const wait = (text: string, waitMs = NO_BANK_MS): Route => {
    return { bank: undefined, text: `waits: ${text}`, waitMs }
  }
  if (state.paused.has('GLOBAL ')) return wait('all payouts are paused', PAUSED_MS)
  if (state.paused.has(`BUSINESS ${payout.businessId}`))
    return wait('payouts of the business are paused', PAUSED_MS)
  const floatOf = (bank: BankCode) => state.floats.get(floatKey({ bank, live }))
  const open = [...banks.keys()].filter((bank) => payout.bank === undefined || payout.bank === bank)
  if (open.length === 0) return wait('no bank that can pay is connected and answers')
  const running = open.filter((bank) => !state.paused.has(`BANK ${bank}`))
  if (running.length === 0)
    return wait('payouts through the banks that can pay are paused', PAUSED_MS)
  const funded = running.filter((bank) => (floatOf(bank) ?? amountMinor) >= amountMinor)
  if (funded.length === 0) return wait(`no bank has ${formatAmount(amountMinor)} naira for it`)
  const chosen = (bank: BankCode, text: string) => {
    const float = floatOf(bank)
    if (float !== undefined) state.floats.set(floatKey({ bank, live }), float - amountMinor)
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
  { sinceMs, leaseMs }: Claimed,
  payout: Payout,
): Promise<SendResult> {
  const bank = bankOfPayout(context, payout)
  if (bank === undefined) return NOT_CONNECTED
  // The process may have been stopped meanwhile. Once the lease has ended another instance asks the bank, and an
  // operator may decide that the bank never saw it.
  if (performance.now() - sinceMs > leaseMs - bank.callTimeoutMs) {
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

/** What a payout becomes that may have been sent before the database was restored. */
function afterFindingAnywhere(
  payout: Payout,
  found: FoundAnywhere,
  { generation }: Generation,
): readonly PayoutChange[] {
  const { status, attempts } = payout
  if (found.kind === 'unclear') {
    const detail = `the banks are asked whether it was sent before the database was restored: ${found.cause}`
    const nextInMs = found.nextInMs ?? askAgainMs(attempts)
    return [{ status, attempts: attempts + 1, nextInMs, detail }]
  }
  if (found.kind === 'never sent') {
    const step = 'no bank knows it, so it was not sent before the database was restored'
    // A payout that waits for an approval next expires.
    const next = status === 'APPROVED' ? { nextInMs: 0 } : {}
    return [{ status, generation, attempts: 0, step, detail: '', ...next }]
  }
  const { bank, state } = found
  const step = `${bank} knows it: it was sent before the database was restored`
  const approved = { status: 'APPROVED', nextInMs: 0, step } as const
  const sent = {
    status: 'SUBMITTING',
    submitted: true,
    bank,
    step,
    nextInMs: 0,
    generation,
  } as const
  const changes = [sent, ...afterSending(payout, state)]
  return status === 'PENDING_APPROVAL' ? [approved, ...changes] : changes
}

/** What a sent payout becomes. A list of two: it was paid and returned. */
function afterSending(payout: Payout, result: SendResult): readonly PayoutChange[] {
  if (result.kind === 'not sent') {
    const cause = plainText(result.cause, DETAIL_MAX)
    return [
      {
        status: 'APPROVED',
        // One that is sent again stays with its bank.
        ...(payout.routing !== SENT_BEFORE && { submitted: false }),
        nextInMs: askAgainMs(payout.attempts),
        attempts: payout.attempts + 1,
        step: `nothing was sent: ${cause}`,
        detail: cause,
      },
    ]
  }
  const stated = afterStatement(result)
  if (stated !== undefined) return stated
  const cause = causeOf(result)
  const text =
    result.kind === 'pending' ? `the bank accepted it: ${cause}` : `the result is unknown: ${cause}`
  return [{ status: 'UNKNOWN', nextInMs: askAgainMs(0), step: text, detail: cause }]
}

/** What a bank stated for good; undefined: nothing. */
function afterStatement(state: TransferState): readonly PayoutChange[] | undefined {
  const paid = (sessionId: string): PayoutChange => ({
    status: 'PAID',
    nextInMs: RETURN_CHECKS_HOURS[0] * HOUR_MS,
    step: 'the bank paid it',
    detail: '',
    failureReason: '',
    ...(sessionId !== '' && { sessionId: plainText(sessionId, 64) }),
  })
  switch (state.kind) {
    case 'paid':
      return [paid(state.sessionId)]
    case 'failed': {
      const cause = plainText(state.cause, DETAIL_MAX)
      const step = `the bank did not pay it: ${cause}`
      return [{ status: 'FAILED', step, detail: cause, failureReason: state.reason }]
    }
    case 'returned':
      return [paid(''), returned(state.cause)]
    default:
      return undefined
  }
}

function causeOf(state: TransferState | FoundTransfer): string {
  return 'cause' in state ? plainText(state.cause, DETAIL_MAX) : ''
}

function returned(text: string): PayoutChange {
  const cause = plainText(text, DETAIL_MAX)
  return { status: 'RETURNED', step: `sent back: ${cause}`, detail: cause }
}

/** What a payout becomes whose bank was asked. */
function afterAsking(
  { clock, log }: PayoutContext,
  payout: Payout,
  found: FoundTransfer,
): readonly PayoutChange[] {
  const { status, attempts } = payout
  if (status === 'PAID') {
    if (found.kind === 'returned') return [returned(found.cause)]
    if (found.kind === 'failed') {
      log.error(
        { payoutId: payout.id, cause: found.cause },
        'the bank states that a paid payout failed: see inflow payout get',
      )
      const text = `the bank states now that it failed: ${plainText(found.cause, DETAIL_MAX)}`
      return [{ status, step: text, detail: text, ...nextCheck(payout, clock.now()) }]
    }
    return [{ status, ...nextCheck(payout, clock.now()) }]
  }
  const stated = found.kind === 'not found' ? undefined : afterStatement(found)
  if (stated !== undefined) return stated
  const cause = causeOf(found)
  if (found.kind === 'not found') {
    const step = `the bank states that it never saw it: ${cause}`
    const isKnown = status === 'MANUAL_REVIEW' && payout.failureReason === NEVER_SEEN
    const failureReason = NEVER_SEEN
    const change = {
      status: 'MANUAL_REVIEW',
      nextInMs: HOUR_MS,
      detail: cause,
      failureReason,
    } as const
    return [isKnown ? change : { ...change, step }]
  }
  if (status === 'MANUAL_REVIEW')
    return [{ status, nextInMs: HOUR_MS, detail: cause, failureReason: '' }]
  const sinceMs = clock.now() - (payout.submittedAtMs ?? payout.createdAtMs)
  if (sinceMs > UNCLEAR_MS_MAX) {
    const step = `the bank states no result for a day: ${cause}`
    return [{ status: 'MANUAL_REVIEW', nextInMs: HOUR_MS, step, detail: cause }]
  }
  return [{ status, attempts: attempts + 1, nextInMs: askAgainMs(attempts + 1), detail: cause }]
}

/** When a paid payout is asked about next. */
function nextCheck({ completedAtMs = 0 }: Payout, nowMs: number): Pick<PayoutChange, 'nextInMs'> {
  const hours = RETURN_CHECKS_HOURS.find((each) => completedAtMs + each * HOUR_MS > nowMs)
  return hours === undefined ? {} : { nextInMs: completedAtMs + hours * HOUR_MS - nowMs }
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
