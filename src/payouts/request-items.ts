import { MINUTE_MS } from '../core/durations.ts'
import { Fault } from '../core/errors.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { isRetryable } from '../postgres/is-retryable.ts'
import { createSemaphore } from '../postgres/semaphore.ts'
import type { Batch, BatchItem } from './batch.ts'
import {
  NO_ORIGIN,
  type PayoutContext,
  type Reservation,
  reserveTogether,
} from './reserve-payout.ts'
import { type ResolvedAccount, resolveAccount } from './resolve-name.ts'

/** How many items one turn of one instance claims, and how many name enquiries run at the same time. */
const ITEMS_MAX = 64
const ENQUIRIES_MAX = 16

/** How long an instance may take for its items before another instance claims them. */
const LEASE_MS = 5 * MINUTE_MS

/** How long an item waits before an unavailable bank, or a pause, is checked again. */
const AGAIN_MS = MINUTE_MS

/**
 * Makes payouts of the items of batches: a bank states the name of each account, then the payout is reserved or the item
 * refused. Items of one batch that are claimed together are reserved in one commit. Every instance runs this loop. The
 * reference of an item is unique, so an item that is claimed twice has one payout.
 */
export function createRequestItems(context: PayoutContext): Loop {
  const semaphore = createSemaphore(ENQUIRIES_MAX)
  return createLoop({
    name: 'items of payout batches',
    log: context.log,
    async turn() {
      const items = await claimItems(context)
      const named = await Promise.all(items.map((item) => semaphore(() => nameItem(context, item))))
      for (const ofBatch of Map.groupBy(named, ({ item }) => item.batchId).values()) {
        await requestNamed(context, ofBatch)
      }
      return items.length === ITEMS_MAX ? 0 : undefined
    },
  })
}

interface Item
  extends Omit<BatchItem, 'amountMinor'>,
    Pick<Batch, 'businessId' | 'live' | 'requestedBy' | 'approvalReason'> {
  readonly batchId: string
  readonly number: number
  readonly amountMinor: string
}

async function claimItems({ database }: PayoutContext): Promise<readonly Item[]> {
  const { rows } = await database.durablePool.query<Item>({
    name: 'payout-item-claim',
    text: `update payout_item i set next_at = now() + ${LEASE_MS} * interval '1 millisecond'
      from (
        select batch_id, number from payout_item where next_at <= now()
        order by next_at, batch_id, number limit ${ITEMS_MAX} for update skip locked
      ) due join payout_batch b on b.id = due.batch_id
      where i.batch_id = due.batch_id and i.number = due.number
      returning i.batch_id as "batchId", i.number, b.business_id as "businessId", b.live, i.reference,
        i.amount_minor as "amountMinor", i.bank_code as "bankCode", i.account_number as "accountNumber",
        i.account_name as "accountName", i.narration, b.requested_by as "requestedBy",
        b.approval_reason as "approvalReason"`,
  })
  return rows
}

/** An item with its account, or with the fault of the name enquiry; undefined: an internal error. */
interface Named {
  readonly item: Item
  readonly resolved: ResolvedAccount | Fault | undefined
}

async function nameItem(context: PayoutContext, item: Item): Promise<Named> {
  const { businessId, live, bankCode, accountNumber, accountName } = item
  const account = { bankCode, accountNumber, accountName, field: 'beneficiary' }
  const request = { resolution: '', account }
  try {
    const owner = { businessId, live }
    return { item, resolved: await resolveAccount(context, owner, request, context.clock.now()) }
  } catch (error) {
    if (error instanceof Fault) return { item, resolved: error }
    logError(context, item, error)
    return { item, resolved: undefined }
  }
}

/** The item is due again once its lease ends. */
function logError({ log }: PayoutContext, { batchId, number }: Item, error: unknown): void {
  log.error({ err: error, batchId, item: number }, 'an item could not be requested')
}

/** Reserves payouts for items of one batch after their name enquiries, and ends the items. */
async function requestNamed(context: PayoutContext, named: readonly Named[]): Promise<void> {
  const [first, ...rest] = named.flatMap(({ item, resolved }) =>
    resolved === undefined || resolved instanceof Fault ? [] : { item, resolved },
  )
  const refused = named.flatMap(({ item, resolved }) =>
    resolved instanceof Fault ? { item, fault: resolved } : [],
  )
  await endItems(context.database.durablePool, refused)
  if (first === undefined) return
  const toReserve = [reservationOf(first), ...rest.map(reservationOf)] as const
  try {
    await reserveTogether(context, toReserve, {
      async beforeCommit(client, results) {
        const ended = [first, ...rest].map(({ item }, at) => {
          const result = results[at]
          return { item, fault: result instanceof Fault ? result : undefined }
        })
        if ((await endItems(client, ended)) < ended.length) throw ALREADY_ENDED
      },
    })
  } catch (error) {
    if (rest.length === 0 && error === ALREADY_ENDED) return
    // One item that the database rejects must not hold up the others, so each is tried alone.
    if (rest.length === 0 || isRetryable(error)) logError(context, first.item, error)
    else for (const each of [first, ...rest]) await requestNamed(context, [each])
  }
}

/** The batch of the item was rejected, or another instance has claimed the item since. */
const ALREADY_ENDED = new Fault('payout_not_pending', 'The item was ended meanwhile')

function reservationOf({
  item,
  resolved,
}: {
  readonly item: Item
  readonly resolved: ResolvedAccount
}): Reservation {
  const { businessId, live, reference, batchId, narration, requestedBy } = item
  return {
    ...NO_ORIGIN,
    businessId,
    live,
    reference,
    batchId,
    narration,
    requestedBy,
    resolved,
    amountMinor: BigInt(item.amountMinor),
    purpose: 'PAYOUT',
    source: 'available',
    approval: item.approvalReason,
    amountField: 'amountMinor',
  }
}

/** Temporary faults: the item waits and is tried again. */
const PASSING: ReadonlySet<string> = new Set(['bank_unavailable', 'unavailable', 'payouts_paused'])

/** An item, and why it has no payout; undefined: it has a payout. */
interface Ended {
  readonly item: Item
  readonly fault: Fault | undefined
}

/** Ends items of one batch, or postpones them after a temporary fault. @returns how many had not ended before */
async function endItems(on: Queryable, ended: readonly Ended[]): Promise<number> {
  const [first] = ended
  if (first === undefined) return 0
  const isWaiting = ({ fault }: Ended) => fault !== undefined && PASSING.has(fault.reason)
  const { rowCount } = await on.query({
    name: 'payout-item-end',
    text: `update payout_item i set next_at = now() + e.next_in_ms * interval '1 millisecond', reason = e.reason,
        detail = e.detail
      from unnest($2::int[], $3::float8[], $4::text[], $5::text[]) e (number, next_in_ms, reason, detail)
      where i.batch_id = $1 and i.number = e.number and i.next_at is not null`,
    values: [
      first.item.batchId,
      ended.map(({ item }) => item.number),
      ended.map((each) => (isWaiting(each) ? AGAIN_MS : null)),
      ended.map((each) => (isWaiting(each) ? '' : (each.fault?.reason ?? ''))),
      ended.map(({ fault }) => {
        const [field] = fault?.fields ?? []
        const detail = field === undefined ? fault?.message : `${field.field} ${field.message}`
        return (detail ?? '').slice(0, 500)
      }),
    ],
  })
  return rowCount ?? 0
}
