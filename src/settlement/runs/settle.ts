import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import { getBusiness } from '../../businesses/get-business.ts'
import { Fault } from '../../core/errors.ts'
import { newId } from '../../core/ids.ts'
import { inTransaction } from '../../postgres/in-transaction.ts'
import type { Database } from '../../postgres/orm.ts'
import type { Settlement } from '../settlement.ts'
import { processRequest, type Run } from './advance-settlements.ts'
import { insertRequest, readRequest, type SettlementRequest } from './requests-store.ts'
import type { SettlementContext } from './run-settlement.ts'
import { findByRequest } from './store.ts'

interface Settle {
  /** Empty: all that are due. */
  readonly businessId: string
  readonly live: boolean
  /** Empty: one is made. */
  readonly requestId: string
  readonly force: boolean
}

/** What a request has come to. */
interface Settled {
  readonly requestId: string
  readonly settlements: readonly Settlement[]
  /** Whether everything that was due then is settled. */
  readonly completed: boolean
}

/** How long one call works. What is left, the job goes on with. */
export const WORK_MS = 20_000

const SETTLEMENTS_MAX = 1_000

/**
 * Settles what a request is for, as far as it comes in its time.
 *
 * @throws Fault not_found (the business), duplicate_request
 */
export async function settle(
  context: SettlementContext & { readonly database: Database },
  wanted: Settle,
  caller: { readonly signal: AbortSignal; readonly actor: Actor },
): Promise<Settled> {
  const { pool, clock, database } = context
  if (wanted.businessId !== '') await getBusiness(database, wanted.businessId)
  const nowMs = clock.now()
  const request = await keepRequest(context, wanted, caller.actor)
  const { businessId, live, forced } = request
  if (businessId !== wanted.businessId || live !== wanted.live || forced !== wanted.force) {
    throw new Fault('duplicate_request', 'The request id was used to settle something else')
  }
  const untilMs = nowMs + WORK_MS
  const goOn = () => !caller.signal.aborted && clock.now() < untilMs
  const run: Run = { ...context, goOn, whenBusy: 'wait', failed: new Map() }
  const completed = request.isCompleted || (await work(run, request))
  const settlements = await findByRequest(pool, request.id, SETTLEMENTS_MAX)
  return { requestId: request.id, settlements, completed }
}

/** The request of an id is the first that had it; only that one is new to the audit log. */
function keepRequest(
  { pool, clock }: SettlementContext,
  wanted: Settle,
  actor: Actor,
): Promise<SettlementRequest> {
  const createdAtMs = clock.now()
  const { businessId, live, force: forced } = wanted
  const id = wanted.requestId || newId('str', createdAtMs)
  return inTransaction(pool, async (client) => {
    if (await insertRequest(client, { id, businessId, live, forced, createdAtMs })) {
      await appendAudit(client, actor, {
        action: 'settlement.settle',
        targetId: id,
        businessId: businessId || undefined,
        details: { live, forced },
      })
    }
    return readRequest(client, id)
  })
}

/** @returns whether everything was done */
async function work(run: Run, request: SettlementRequest): Promise<boolean> {
  for (;;) {
    const progress = await processRequest(run, request)
    if (progress !== 'more' || !run.goOn()) return progress === 'done'
  }
}
