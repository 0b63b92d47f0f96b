import type { EntityManager } from '@mikro-orm/postgresql'
import { queriesOf } from '../../postgres/queries-of.ts'
import type { SettlementRequestEntity } from '../settlement.entity.ts'

/** Identifies a request for its caller: each business has its own ids, in each mode. */
interface RequestKey {
  /** Empty: all businesses that are due. */
  readonly businessId: string
  readonly live: boolean
  readonly idempotencyKey: string
}

/** A caller's request to settle. */
export interface SettlementRequest extends RequestKey {
  readonly id: string
  readonly forced: boolean
  readonly createdAtMs: number
  readonly isCompleted: boolean
}

/** Stores a request unless its key is taken. @returns whether it was stored */
export async function insertRequest(
  em: EntityManager,
  { createdAtMs, ...request }: Omit<SettlementRequest, 'isCompleted'>,
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await queriesOf<typeof SettlementRequestEntity>(em)
    .insertInto('settlement_request')
    .values({ ...request, createdAt: new Date(createdAtMs), completedAt: null })
    .onConflict((conflict) =>
      conflict.columns(['businessId', 'live', 'idempotencyKey']).doNothing(),
    )
    .executeTakeFirstOrThrow()
  return numInsertedOrUpdatedRows === 1n
}

const requests = (em: EntityManager) =>
  queriesOf<typeof SettlementRequestEntity>(em).selectFrom('settlement_request').selectAll()

/** The stored request of a key. */
export async function readRequest(
  em: EntityManager,
  { businessId, live, idempotencyKey }: RequestKey,
): Promise<SettlementRequest> {
  const row = await requests(em)
    .where('businessId', '=', businessId)
    .where('live', '=', live)
    .where('idempotencyKey', '=', idempotencyKey)
    .executeTakeFirstOrThrow()
  return toRequest(row)
}

/**
 * One page of the uncompleted requests made at or before a time, ordered by id.
 *
 * @param after the id of the last request of the previous page
 */
export async function listOpenRequests(
  em: EntityManager,
  { beforeMs, after }: { readonly beforeMs: number; readonly after: string },
  limit: number,
): Promise<SettlementRequest[]> {
  const rows = await requests(em)
    .where('completedAt', 'is', null)
    .where('id', '>', after)
    .where('createdAt', '<=', new Date(beforeMs))
    .orderBy('id')
    .limit(limit)
    .execute()
  return rows.map(toRequest)
}

/** Marks a request as completed: a repeat starts no settlement. */
export async function completeRequest(em: EntityManager, id: string, nowMs: number): Promise<void> {
  await queriesOf<typeof SettlementRequestEntity>(em)
    .updateTable('settlement_request')
    .set({ completedAt: new Date(nowMs) })
    .where('id', '=', id)
    .where('completedAt', 'is', null)
    .execute()
}

function toRequest({
  createdAt,
  completedAt,
  ...request
}: Awaited<ReturnType<ReturnType<typeof requests>['executeTakeFirstOrThrow']>>): SettlementRequest {
  return { ...request, createdAtMs: createdAt.getTime(), isCompleted: completedAt !== null }
}
