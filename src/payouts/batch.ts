import type { Queryable } from '../postgres/in-transaction.ts'
import { cutPage, readPage } from '../postgres/page-token.ts'

/** A batch of payouts with the progress of its items. Amounts are in kobo. */
export interface Batch {
  readonly id: string
  readonly businessId: string
  readonly live: boolean
  readonly reference: string
  readonly count: number
  readonly sumMinor: bigint
  /** A hash of the items: a repeated request has the same hash. */
  readonly detailsHash: string
  readonly requestedBy: string
  /** Why all payouts of the batch need an approval, whatever their amounts; empty: the batch itself requires none. */
  readonly approvalReason: string
  readonly createdAtMs: number
  /** Items that still wait for a name enquiry. */
  readonly pendingCount: number
  readonly refusedCount: number
  /** Payouts that await an approval. */
  readonly approvalCount: number
  readonly approvalSumMinor: bigint
  readonly paidCount: number
  readonly failedCount: number
}

/** One payout of a requested batch. `accountName` is the name that the caller expects. */
export interface BatchItem {
  readonly reference: string
  readonly amountMinor: bigint
  readonly bankCode: string
  readonly accountNumber: string
  readonly accountName: string
  /** Empty: the name of the business is used. */
  readonly narration: string
}

interface BatchRow extends Omit<Batch, 'sumMinor' | 'approvalSumMinor'> {
  readonly sumMinor: string
  readonly approvalSumMinor: string
}

const BATCH_COLUMNS = `b.id, b.business_id as "businessId", b.live, b.reference, b.count, b.sum_minor as "sumMinor",
  b.details_hash as "detailsHash", b.requested_by as "requestedBy", b.approval_reason as "approvalReason",
  round(date_part('epoch', b.created_at) * 1000) as "createdAtMs", i.pending as "pendingCount",
  i.refused as "refusedCount", p.approval as "approvalCount", p.approval_minor as "approvalSumMinor",
  p.paid as "paidCount", p.failed as "failedCount"`

const BATCH_STATE = `cross join lateral (
    select (count(*) filter (where next_at is not null))::int as pending,
      (count(*) filter (where reason <> ''))::int as refused
    from payout_item where batch_id = b.id
  ) i cross join lateral (
    select (count(*) filter (where status = 'PENDING_APPROVAL'))::int as approval,
      coalesce(sum(amount_minor) filter (where status = 'PENDING_APPROVAL'), 0) as approval_minor,
      (count(*) filter (where status = 'PAID'))::int as paid,
      (count(*) filter (where completed_at is not null and status <> 'PAID'))::int as failed
    from payout where batch_id = b.id
  ) p`

function toBatch(row: BatchRow): Batch {
  const { sumMinor, approvalSumMinor } = row
  return { ...row, sumMinor: BigInt(sumMinor), approvalSumMinor: BigInt(approvalSumMinor) }
}

export async function findBatch(
  on: Queryable,
  { businessId, batchId }: { readonly businessId: string; readonly batchId: string },
): Promise<Batch | undefined> {
  const { rows } = await on.query<BatchRow>(
    `select ${BATCH_COLUMNS} from payout_batch b ${BATCH_STATE} where b.id = $1 and b.business_id = $2`,
    [batchId, businessId],
  )
  return rows[0] && toBatch(rows[0])
}

export async function findBatchByReference(
  on: Queryable,
  key: { readonly businessId: string; readonly live: boolean; readonly reference: string },
): Promise<Batch | undefined> {
  const { rows } = await on.query<BatchRow>(
    `select ${BATCH_COLUMNS} from payout_batch b ${BATCH_STATE}
      where b.business_id = $1 and b.live = $2 and b.reference = $3`,
    [key.businessId, key.live, key.reference],
  )
  return rows[0] && toBatch(rows[0])
}

/** One page of the batches of a business, newest first. @throws Fault validation_failed (the page token) */
export async function listBatches(
  on: Queryable,
  request: { readonly businessId: string; readonly pageSize: number; readonly pageToken: string },
): Promise<{ readonly rows: readonly Batch[]; readonly nextPageToken: string }> {
  const page = readPage(request.pageSize, request.pageToken, 1)
  const { rows } = await on.query<BatchRow>(
    `select ${BATCH_COLUMNS} from (
        select * from payout_batch where business_id = $1 and ($2::text is null or id < $2)
        order by id desc limit $3
      ) b ${BATCH_STATE} order by b.id desc`,
    [request.businessId, page.after?.[0] ?? null, page.limit + 1],
  )
  return cutPage(rows.map(toBatch), page, ({ id }) => [id])
}

/** An item for which no payout was made, and the reason. */
interface Refused {
  readonly index: number
  readonly reference: string
  readonly reason: string
  readonly detail: string
}

const REFUSED_MAX = 1_000

export async function listRefused(on: Queryable, batchId: string): Promise<readonly Refused[]> {
  const { rows } = await on.query<Refused>(
    `select number as index, reference, reason, detail from payout_item
      where batch_id = $1 and reason <> '' order by number limit ${REFUSED_MAX}`,
    [batchId],
  )
  return rows
}
