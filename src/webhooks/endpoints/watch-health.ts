import { type EntityManager, LockMode } from '@mikro-orm/postgresql'
import { newId } from '../../core/ids.ts'
import type { Runtime } from '../../postgres/runtime.ts'
import { encodeEndpointEvent } from '../message.ts'
import { type Endpoint, EndpointEntity } from './endpoint.entity.ts'
import { type EndpointEventKind, type Health, judge } from './endpoint.ts'

/** A recorded failed attempt. */
export interface Failure {
  readonly endpointId: string
  /** The URL of the attempt; the endpoint may have another URL by now. */
  readonly url: string
  readonly status: number | undefined
  /** The health of the endpoint before this attempt. */
  readonly health: Health
}

/** The response of a receiver that wants no more events. */
const GONE = 410

/**
 * Records a warning for endpoints that keep failing, and later disables them. An endpoint that responds with 410 is
 * disabled at once. Work lost in a crash is repeated at the next failure.
 *
 * @returns a function to call with each failed attempt; it returns at once and does not throw
 */
export function createHealthWatch(runtime: Runtime): (failure: Failure) => void {
  const { log, clock } = runtime
  // A failing endpoint fails often, so only one update of the endpoint runs at a time.
  const inProgress = new Set<string>()
  return (failure) => {
    const { endpointId, status, health } = failure
    if (inProgress.has(endpointId)) return
    if (status !== GONE && judge(health, clock.now()) === 'keep') return
    inProgress.add(endpointId)
    updateHealth(runtime, failure)
      .catch((error: unknown) => {
        log.warn({ err: error, endpoint: endpointId }, 'endpoint health could not be updated')
      })
      .finally(() => inProgress.delete(endpointId))
  }
}

/** Judges the endpoint of a failure, unless it has another URL by now, and records the verdict. */
export async function updateHealth(runtime: Runtime, failure: Failure): Promise<void> {
  const { clock, log, onCommit } = runtime
  const { orm } = runtime.database
  const nowMs = clock.now()
  const changed = await orm.em.fork().transactional(async (em) => {
    const { endpointId: id, url } = failure
    const judged = { id, url, disabledAt: null, deletedAt: null }
    const lockMode = LockMode.PESSIMISTIC_WRITE
    const endpoint = await em.findOne(EndpointEntity, judged, { lockMode })
    if (endpoint === null) return undefined
    const kind = applyVerdict(endpoint, failure, nowMs)
    if (kind !== undefined) await publishEndpointEvent(em, kind, endpoint, nowMs)
    return kind && { kind, endpoint }
  })
  if (changed === undefined) return
  const { kind, endpoint } = changed
  log.warn(
    {
      endpoint: endpoint.id,
      business: endpoint.business.id,
      url: new URL(endpoint.url).origin,
      failingSince: endpoint.failingSince,
      reason: endpoint.disabledReason,
    },
    kind === 'ENDPOINT_DISABLED' ? 'webhook endpoint disabled' : 'webhook endpoint keeps failing',
  )
  onCommit()
}

/** Judges the locked endpoint in its current state. @returns the kind of event to record, if any */
function applyVerdict(endpoint: Endpoint, { status }: Failure, nowMs: number) {
  const verdict = status === GONE ? 'disable' : judge(healthOf(endpoint), nowMs)
  if (verdict === 'keep') return undefined
  if (verdict === 'warn') {
    endpoint.warnedAt = new Date(nowMs)
    return 'ENDPOINT_FAILING'
  }
  endpoint.disabledAt = new Date(nowMs)
  endpoint.disabledReason = status === GONE ? 'GONE' : 'FAILING'
  return 'ENDPOINT_DISABLED'
}

function healthOf({ failingSince, warnedAt }: Endpoint): Health {
  return {
    failingSinceMs: failingSince?.getTime() ?? null,
    warnedAtMs: warnedAt?.getTime() ?? null,
  }
}

/**
 * Writes an event about an endpoint into the outbox, in the transaction that changes the endpoint.
 *
 * @returns the event's id
 */
export async function publishEndpointEvent(
  em: EntityManager,
  kind: EndpointEventKind,
  endpoint: Endpoint,
  nowMs: number,
): Promise<string> {
  const eventId = newId('evt', nowMs)
  await em.execute(
    `insert into outbox (event_id, business_id, live, kind, occurred_at, payload, subject_id)
      values (?, ?, ?, ?, ?, ?, ?)`,
    [
      eventId,
      endpoint.business.id,
      endpoint.live,
      kind,
      new Date(nowMs),
      Buffer.from(encodeEndpointEvent(endpoint, { eventId, kind, nowMs })),
      endpoint.id,
    ],
  )
  return eventId
}
