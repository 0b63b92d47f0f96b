import { MINUTE_MS } from '../core/durations.ts'
import { Fault } from '../core/errors.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { createSemaphore } from '../postgres/semaphore.ts'
import { NO_ORIGIN, type PayoutContext, reserve } from './create-payout.ts'
import { resolveAccount } from './resolve-name.ts'

/** How many items one turn of one instance takes, and of how many it asks a bank for the name at the same time. */
const ITEMS_MAX = 64
const ENQUIRIES_MAX = 8

/** How long an instance may take for its items before another one takes them up. */
const LEASE_MS = 5 * MINUTE_MS

/** How long to wait for a bank, or for the end of a pause. */
const AGAIN_MS = MINUTE_MS

/**
 * Makes payouts of the items of batches: a bank states the name of each account, and its payout is reserved, or the item is
 * refused. Every instance runs this loop. The reference of an item is unique, so an item that is taken up twice has one
 * payout.
 */
export function createRequestItems(context: PayoutContext): Loop {
  const semaphore = createSemaphore(ENQUIRIES_MAX)
  return createLoop({
    name: 'items of payout batches',
    log: context.log,
    async turn() {
      const items = await claimItems(context)
      await Promise.all(items.map((item) => semaphore(() => requestItem(context, item))))
      return items.length === ITEMS_MAX ? 0 : undefined
    },
  })
}

interface Item {
  readonly batchId: string
  readonly number: number
  readonly businessId: string
  readonly live: boolean
  readonly reference: string
  readonly amountMinor: string
  readonly bankCode: string
  readonly accountNumber: string
  readonly accountName: string
  readonly narration: string
  readonly requestedBy: string
  readonly approvalReason: string
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

async function requestItem(context: PayoutContext, item: Item): Promise<void> {
  const { businessId, live, reference, batchId, narration, requestedBy } = item
  const { bankCode, accountNumber, accountName } = item
  const amountMinor = BigInt(item.amountMinor)
  try {
    const account = { bankCode, accountNumber, accountName, field: 'beneficiary' }
    const request = { resolution: '', account }
    const owner = { businessId, live }
    const resolved = await resolveAccount(context, owner, request, context.clock.now())
    await reserve(context, {
      ...NO_ORIGIN,
      ...{ businessId, live, reference, batchId, narration, requestedBy, resolved, amountMinor },
      purpose: 'PAYOUT',
      source: 'available',
      approval: item.approvalReason,
      isCharged: true,
      amountField: 'amountMinor',
    })
    await endItem(context, item, undefined)
  } catch (error) {
    if (error instanceof Fault) return endItem(context, item, error)
    // The item is due again once its lease ends.
    context.log.error({ err: error, batchId, item: item.number }, 'an item could not be requested')
  }
}

/** Reasons that pass: the item waits. */
const PASSING: ReadonlySet<string> = new Set(['bank_unavailable', 'unavailable', 'payouts_paused'])

/** @param fault why it has no payout; undefined: it has one */
async function endItem(
  { database }: PayoutContext,
  { batchId, number }: Item,
  fault: Fault | undefined,
): Promise<void> {
  const isWaiting = fault !== undefined && PASSING.has(fault.reason)
  const [field] = fault?.fields ?? []
  const detail = field === undefined ? fault?.message : `${field.field} ${field.message}`
  await database.durablePool.query({
    name: 'payout-item-end',
    text: `update payout_item set next_at = now() + $3 * interval '1 millisecond', reason = $4, detail = $5
      where batch_id = $1 and number = $2 and next_at is not null`,
    values: [
      ...[batchId, number, isWaiting ? AGAIN_MS : null],
      ...[isWaiting ? '' : (fault?.reason ?? ''), (detail ?? '').slice(0, 500)],
    ],
  })
}
