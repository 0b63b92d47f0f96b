import { LockMode } from '@mikro-orm/core'
import type { MikroORM } from '@mikro-orm/postgresql'
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { type Endpoint, EndpointEntity } from './endpoint.entity.ts'
import { type Health, judge } from './endpoint.ts'
import { publishEndpointEvent } from './endpoint-event.ts'

/** A failed attempt that was written down. */
export interface Failure {
  readonly endpointId: string
  /** Where it was sent: the endpoint may have another address by now. */
  readonly url: string
  readonly status: number | undefined
  /** The endpoint's, before this attempt. */
  readonly health: Health
}

interface WatchOptions {
  readonly orm: MikroORM
  readonly clock: Clock
  readonly log: Logger
  /** Called after a commit that added an event. */
  readonly onCommit: () => void
}

/** The answer of a receiver that wants nothing more. */
const GONE = 410

/**
 * Warns of endpoints that keep failing and disables them in the end; those that say they are gone
 * are disabled at once. What is lost in a crash is done at the next failure.
 *
 * @returns a function that tells of a failed attempt; it does not throw, and does not wait
 */
export function createHealthWatch(options: WatchOptions): (failure: Failure) => void {
  const { log, clock } = options
  // An endpoint that fails, fails often; it is looked at once at a time.
  const underWay = new Set<string>()
  return (failure) => {
    const { endpointId, status, health } = failure
    if (underWay.has(endpointId)) return
    if (status !== GONE && judge(health, clock.now()) === 'keep') return
    underWay.add(endpointId)
    settle(options, failure)
      .catch((error: unknown) => {
        log.warn({ err: error, endpoint: endpointId }, 'health of an endpoint not settled')
      })
      .finally(() => underWay.delete(endpointId))
  }
}

async function settle(options: WatchOptions, failure: Failure): Promise<void> {
  const { orm, clock, log, onCommit } = options
  const nowMs = clock.now()
  const settled = await orm.em.fork().transactional(async (em) => {
    const endpoint = await em.findOne(
      EndpointEntity,
      { id: failure.endpointId, url: failure.url, disabledAt: null, deletedAt: null },
      { lockMode: LockMode.PESSIMISTIC_WRITE },
    )
    if (endpoint === null) return undefined
    const kind = move(endpoint, failure, nowMs)
    if (kind !== undefined) await publishEndpointEvent(em, kind, endpoint, nowMs)
    return kind && { kind, endpoint }
  })
  if (settled === undefined) return
  const { kind, endpoint } = settled
  log.warn(
    {
      endpoint: endpoint.id,
      business: endpoint.business,
      url: new URL(endpoint.url).origin,
      failingSince: endpoint.failingSince,
      reason: endpoint.disabledReason,
    },
    kind === 'ENDPOINT_DISABLED' ? 'webhook endpoint disabled' : 'webhook endpoint keeps failing',
  )
  onCommit()
}

/** Judges the endpoint as it is now, under its lock. @returns what there is to tell */
function move(endpoint: Endpoint, { status }: Failure, nowMs: number) {
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
  return { failingSinceMs: failingSince?.getTime(), warnedAtMs: warnedAt?.getTime() }
}
