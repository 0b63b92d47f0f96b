import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import { getBusiness } from '../../businesses/get-business.ts'
import { Fault } from '../../core/errors.ts'
import { newId } from '../../core/ids.ts'
import { type SettlementRequest, SettlementRequestEntity } from '../settlement.entity.ts'
import type { Settlement } from '../settlement.ts'
import { processRequest, type Run } from './advance-settlements.ts'
import type { SettlementContext } from './run-settlement.ts'
import { findByRequest } from './store.ts'

interface SettleInput {
  /** Empty: all businesses that are due. */
  readonly businessId: string
  readonly live: boolean
  /** Empty: an id is generated. */
  readonly requestId: string
  readonly force: boolean
}

/** The current state of a request. */
interface SettleResult {
  readonly requestId: string
  readonly settlements: readonly Settlement[]
  /** Whether all payments that were due at the request are settled. */
  readonly completed: boolean
}

/** How long one call runs. The job continues unfinished work. */
export const CALL_MAX_MS = 20_000

const SETTLEMENTS_MAX = 1_000

/**
 * Processes a settlement request for up to `CALL_MAX_MS`. A forced one of a business settles all payments that were
 * acknowledged before it.
 *
 * @throws Fault not_found (the business), duplicate_request
 */
export async function settle(
  context: SettlementContext,
  input: SettleInput,
  caller: { readonly signal: AbortSignal; readonly actor: Actor },
): Promise<SettleResult> {
  const { clock, database } = context
  if (input.businessId !== '') await getBusiness(database, input.businessId)
  const nowMs = clock.now()
  const request = await saveRequest(context, input, caller.actor)
  if (request.forced !== input.force) {
    throw new Fault('duplicate_request', 'The request id was already used with other parameters')
  }
  if (input.force && input.businessId !== '') {
    await context.awaitNumbers(input, caller.signal)
  }
  const untilMs = nowMs + CALL_MAX_MS
  const shouldContinue = () => !caller.signal.aborted && clock.now() < untilMs
  const run: Run = { ...context, shouldContinue, onLocked: 'wait', failed: new Map() }
  const completed = Boolean(request.completedAt) || (await processUntilDone(run, request))
  const settlements = await findByRequest(database.durablePool, request.id, SETTLEMENTS_MAX)
  return { requestId: request.idempotencyKey, settlements, completed }
}

/** Returns the first request of the business with this id. Only a new request is added to the audit log. */
function saveRequest(
  { database, clock }: SettlementContext,
  input: SettleInput,
  actor: Actor,
): Promise<SettlementRequest> {
  const nowMs = clock.now()
  const { businessId, live, force: forced } = input
  const id = newId('str', nowMs)
  const idempotencyKey = input.requestId || id
  const createdAt = new Date(nowMs)
  return database.orm.em.fork().transactional(async (em) => {
    const request = await em.upsert(
      SettlementRequestEntity,
      { id, businessId, live, idempotencyKey, forced, createdAt, completedAt: null },
      { onConflictFields: ['businessId', 'live', 'idempotencyKey'], onConflictAction: 'ignore' },
    )
    if (request.id === id) {
      await appendAudit(em, actor, {
        action: 'settlement.settle',
        targetId: idempotencyKey,
        businessId: businessId || undefined,
        details: { live, forced },
      })
    }
    return request
  })
}

/** @returns whether the request is completed */
async function processUntilDone(run: Run, request: SettlementRequest): Promise<boolean> {
  for (;;) {
    const progress = await processRequest(run, request)
    if (progress !== 'more' || !run.shouldContinue()) return progress === 'done'
  }
}
