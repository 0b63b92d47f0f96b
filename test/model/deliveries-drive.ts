import { createHmac } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { durationFromMs, timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { Client } from '@connectrpc/connect'
import type { Pool } from 'pg'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import type { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { createBatchWatch } from '../../src/postgres/batcher.ts'
import type { Database } from '../../src/postgres/orm.ts'
import { expireEvents, sequence } from '../support/events.ts'
import {
  type Answer,
  type ReceivedRequest,
  type Receiver,
  startReceiver,
} from '../support/receiver.ts'
import { WAIT_LIMIT_MS, waitFor, waitUntil } from '../support/wait-for.ts'
import { accountEvent, addBusiness, openWebhooks, paymentEvent } from '../webhooks/fixture.ts'
import { clientOf } from '../webhooks/harness.ts'
import {
  type Command,
  type Endpoint,
  finish,
  LATER_MS,
  LEASE_MS,
  logged,
  newWorld,
  type Outcome,
  RETENTION_DAYS,
  type Request,
  received,
  SCHEDULE_MS,
  SHOWN,
  step,
  type World,
} from './deliveries.ts'
import { answerOf } from './try-stories.ts'

/** An endpoint to begin with. */
export interface NewEndpoint extends Pick<Endpoint, 'business' | 'live' | 'ordered' | 'kinds'> {
  readonly concurrency: number
}

/** Webhooks of one instance, whose clock may be ahead of the first one's. */
type ModelInstance = ReturnType<typeof startInstance>

/** The instances, the receiver, and their ids for the names of the model. */
export interface Drive {
  readonly durablePool: Pool
  readonly receiver: Receiver
  readonly clock: { nowMs: number }
  readonly instances: ModelInstance[]
  readonly world: World
  /** The ids of businesses and endpoints. */
  readonly ids: Map<string, string>
  /** The secrets of endpoints, by name and number. */
  readonly secrets: Map<string, string>
  readonly inbox: Request[]
  /** Ends the waits of held requests. */
  readonly waiting: Map<
    number,
    Pick<Request, 'endpoint'> & { end(answer: Answer): void; abort(): void }
  >
  /** Attempts that ended and batches that recorded them. */
  readonly tally: { answered: number; recorded: number; batches: number }
  /** Requests wait while a call is in progress: it and they do not overlap. */
  gate: Promise<unknown>
  /** The last position of the log that was read. */
  position: bigint
  requests: number
  /** Chooses the instance of the next call. */
  calls: number
}

/** Longer than instances keep what they have read, by their clocks. */
const TICK_MS = 1_100

function startInstance(
  database: Database,
  clock: { nowMs: number },
  skewMs: number,
  drive: Pick<Drive, 'tally'>,
) {
  const now = () => clock.nowMs + skewMs
  const { mortal, kill } = toMortal(database)
  const webhooks = openWebhooks(mortal, {
    clock: { now },
    leaseMs: LEASE_MS,
    retryScheduleMs: SCHEDULE_MS,
    retentionDays: RETENTION_DAYS,
    requestTimeoutMs: 120_000,
    observeBatches: () => ({
      ...createBatchWatch(),
      start: (items) => (error) => {
        if (error !== undefined) return
        drive.tally.recorded += items
        drive.tally.batches += 1
      },
    }),
  })
  webhooks.start()
  // Stories run it, and it has no other time of its own.
  void webhooks.retention.stop()
  const restart = () => startInstance(database, clock, skewMs, drive)
  return { webhooks, client: clientOf(webhooks), now, skewMs, kill, restart }
}

/** A database that no statement reaches any more once the process that has it is killed. */
function toMortal(database: Database): { mortal: Database; kill(): void } {
  let isDead = false
  const gone = () => new Error('the process is gone')
  const cut = <Target extends object>(target: Target): Target =>
    new Proxy(target, {
      get(_, name) {
        const value = Reflect.get(target, name, target)
        if (typeof value !== 'function') {
          if (isDead) throw gone()
          return value
        }
        return isDead ? () => Promise.reject(gone()) : value.bind(target)
      },
    })
  const { orm, durablePool, relaxedPool, recordingPool } = database
  return {
    mortal: {
      ...database,
      orm: cut(orm),
      durablePool: cut(durablePool),
      relaxedPool: cut(relaxedPool),
      recordingPool: cut(recordingPool),
    },
    kill() {
      isDead = true
    },
  }
}

/** What is left of killed instances ends after seconds, which no story waits for. */
const remains = new Set<Promise<unknown>>()

export const awaitRemains = () => Promise.all(remains)

/** Kills all instances with their requests in progress, and starts them again. */
function crash({ instances, waiting }: Drive): void {
  for (const [index, { webhooks, kill, restart }] of instances.entries()) {
    kill()
    remains.add(webhooks.stop().catch(() => undefined))
    instances[index] = restart()
  }
  for (const { abort } of waiting.values()) abort()
  waiting.clear()
}

/** Starts two instances on a database each, and creates businesses and endpoints. */
export async function startDrive(
  databases: readonly [Database, Database],
  businesses: readonly string[],
  endpoints: readonly NewEndpoint[],
  skewMs: number,
): Promise<Drive> {
  const [{ durablePool }] = databases
  await durablePool.query(
    'truncate webhook_attempt, webhook_delivery, webhook_secret, webhook_endpoint',
  )
  const receiver = await startReceiver()
  // Ahead of the database's clock, also when a story moves it back.
  const clock = { nowMs: Date.now() + 48 * 3_600_000 }
  const tally = { answered: 0, recorded: 0, batches: 0 }
  const { rows } = await durablePool.query(
    'select coalesce(max(position), 0) as last from event_log',
  )
  const drive: Drive = {
    durablePool,
    receiver,
    clock,
    tally,
    world: newWorld(),
    ids: new Map(),
    secrets: new Map(),
    instances: [
      startInstance(databases[0], clock, 0, { tally }),
      startInstance(databases[1], clock, skewMs, { tally }),
    ],
    inbox: [],
    waiting: new Map(),
    gate: Promise.resolve(),
    position: BigInt(rows[0].last),
    requests: 0,
    calls: 0,
  }
  receiver.answer((request) => answer(drive, request))
  for (const name of businesses) drive.ids.set(name, await addBusiness(databases[0]))
  for (const [index, each] of endpoints.entries()) await addEndpoint(drive, `e${index}`, each)
  // Instances connect meanwhile.
  for (const _ of drive.instances) await run(drive, { kind: 'wait', ms: 0 })
  return drive
}

export async function stopDrive({ instances, waiting, receiver }: Drive): Promise<void> {
  for (const { end } of waiting.values()) end('close')
  await Promise.all(instances.map(({ webhooks }) => webhooks.stop()))
  await receiver.close()
}

async function addEndpoint(drive: Drive, name: string, each: NewEndpoint): Promise<void> {
  const { business, live, ordered, kinds, concurrency } = each
  const created = await nextClient(drive).createEndpoint({
    businessId: idOf(drive, business),
    url: urlOf(drive, `/${name}/0`),
    kinds: [...kinds],
    concurrency,
    live,
    options: { ordered },
  })
  drive.ids.set(name, created.endpoint!.id)
  drive.secrets.set(`${name} 1`, created.secret)
  drive.world.endpoints.set(name, {
    name,
    business,
    live,
    ordered,
    kinds,
    path: `/${name}/0`,
    after: 0,
    mood: 'ok',
    disabled: undefined,
    isDeleted: false,
    failing: undefined,
    warned: undefined,
    secrets: [{ number: 1, expires: undefined }],
    lastSequence: 0,
  })
}

// The receiver

/** Answers a request as the mood of its endpoint says. */
async function answer(drive: Drive, incoming: ReceivedRequest): Promise<Answer> {
  await drive.gate
  const endpoint = drive.world.endpoints.get(incoming.path.split('/')[1]!)!
  const { event, data } = JSON.parse(incoming.rawBody)
  const { sequence, previous_sequence: previous, event_id } = data
  const isHeld = [...drive.waiting.values()].some((each) => each.endpoint === endpoint.name)
  const outcome = outcomeOf(endpoint, sequence, isHeld)
  drive.requests += 1
  const number = drive.requests
  drive.inbox.push({
    number,
    outcome,
    endpoint: endpoint.name,
    path: incoming.path,
    eventId: event_id,
    kind: event,
    sequence,
    previous,
    signedBy: signersOf(drive, endpoint, incoming),
    timestampMs: Number(incoming.headers['webhook-timestamp']) * 1_000,
  })
  if (outcome === 'hold') {
    const { promise, resolve } = Promise.withResolvers<Answer>()
    const end = (later: Answer) => {
      drive.waiting.delete(number)
      drive.tally.answered += 1
      resolve(later)
    }
    drive.waiting.set(number, { endpoint: endpoint.name, end, abort: () => resolve('close') })
    return promise
  }
  drive.tally.answered += 1
  return responseOf(outcome)
}

function outcomeOf({ mood }: Endpoint, sequence: number, isHeld: boolean): Outcome | 'hold' {
  if (mood === 'odd') return sequence % 2 === 1 ? 'fail' : 'ok'
  return mood === 'hold' && isHeld ? 'ok' : mood
}

function responseOf(outcome: Outcome): Answer {
  if (outcome === 'close') return 'close'
  const headers = outcome === 'later' ? { 'retry-after': `${LATER_MS / 1_000}` } : {}
  return { status: SHOWN[outcome].status, headers }
}

/** The numbers of the secrets of a request's signatures, in their order; 0 for one that no secret made. */
function signersOf(
  { secrets }: Drive,
  { name }: Endpoint,
  { headers, rawBody }: ReceivedRequest,
): number[] {
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${rawBody}`
  const numbers = new Map<string, number>()
  for (let number = 1; secrets.has(`${name} ${number}`); number++) {
    const key = Buffer.from(secrets.get(`${name} ${number}`)!.slice('whsec_'.length), 'base64')
    numbers.set(`v1,${createHmac('sha256', key).update(signed).digest('base64')}`, number)
  }
  const texts = `${headers['webhook-signature']}`.split(' ')
  return texts.map((text) => numbers.get(text) ?? 0)
}

// Commands

/** Runs one command, and waits until the instances have completed its effects. */
export async function run(drive: Drive, command: Command): Promise<void> {
  const { world, clock } = drive
  await endTurns(drive)
  if (command.kind === 'wait') clock.nowMs += command.ms
  world.step += 1
  world.clock = { fromMs: clock.nowMs, toMs: latestClock(drive) }
  drive.tally.batches = 0
  const expected = step(world, command)
  const { promise, resolve } = Promise.withResolvers<void>()
  drive.gate = promise
  const found = await answerOf(call(drive, command)).finally(resolve)
  if (found !== expected) throw new Error(`was answered ${found}, not ${expected}`)
  // A lease must not end between a response and its record.
  await waitUntil(() => drive.tally.answered === drive.tally.recorded)
  let answered: number
  do {
    answered = drive.tally.answered
    passTime(drive)
    await settle(drive)
    // The next command comes after all attempts, by each clock.
  } while (isBetweenClocks(drive) || drive.tally.answered > answered)
}

/** Turns that have read the clock have ended: they come to no result of an earlier time. */
async function endTurns({ durablePool }: Drive): Promise<void> {
  await waitUntil(async () => {
    const { rows } = await durablePool.query(
      `select from pg_stat_activity where datname = current_database() and state <> 'idle'
        and backend_type = 'client backend' and pid <> pg_backend_pid()`,
    )
    return rows.length === 0
  })
}

/** Less than a lease, also by the clock that is ahead: no lease of a request in progress ends. */
function passTime(drive: Drive): void {
  const { world, clock } = drive
  clock.nowMs += TICK_MS + latestClock(drive) - clock.nowMs
  world.clock = { ...world.clock, toMs: latestClock(drive) }
}

/** Whether a delivery is due, or a lease ends, by the clock of one instance and not by the other's. */
function isBetweenClocks(drive: Drive): boolean {
  const pending = drive.world.deliveries.filter(({ state }) => state === 'PENDING')
  return pending
    .flatMap(({ due, claim }) => [due, ...(claim ? [claim.lease] : [])])
    .some(({ fromMs, toMs }) => toMs > drive.clock.nowMs && fromMs <= latestClock(drive))
}

async function call(drive: Drive, command: Command): Promise<string> {
  const client = nextClient(drive)
  switch (command.kind) {
    case 'wait':
    case 'mood':
      return 'done'
    case 'publish':
      return publish(drive, command.events)
    case 'release':
      drive.waiting.get(command.request)?.end(responseOf(command.outcome))
      return 'done'
    case 'redeliver':
    case 'skip': {
      const deliveryId = await deliveryIdOf(drive, command.endpoint, command.event)
      if (command.kind === 'skip') await client.skipDelivery({ deliveryId })
      else await client.redeliver({ deliveryId })
      return 'done'
    }
    case 'expireEvents': {
      const event = drive.world.events[command.upTo - 1]
      if (event) await expireEvents(drive.durablePool, await positionOf(drive, event.id))
      return 'done'
    }
    case 'cut':
      return cut(drive)
    case 'crash':
      crash(drive)
      await drive.instances[0]!.webhooks.retention.run()
      return 'done'
    case 'retain': {
      drive.calls += 1
      const { webhooks } = drive.instances[drive.calls % drive.instances.length]!
      return `${(await webhooks.retention.run()).expired}`
    }
    default:
      return changeEndpoint(drive, command)
  }
}

async function changeEndpoint(
  drive: Drive,
  command: Exclude<Extract<Command, { endpoint: string }>, { kind: 'mood' | 'redeliver' | 'skip' }>,
): Promise<string> {
  const client = nextClient(drive)
  const endpointId = idOf(drive, command.endpoint)
  switch (command.kind) {
    case 'enable':
    case 'disable':
      await client.updateEndpoint({ endpointId, enabled: command.kind === 'enable' })
      return 'done'
    case 'delete':
      await client.deleteEndpoint({ endpointId })
      return 'done'
    case 'order':
      await client.updateEndpoint({ endpointId, options: { ordered: command.ordered } })
      return 'done'
    case 'move':
      await client.updateEndpoint({ endpointId, url: urlOf(drive, command.path) })
      return 'done'
    case 'choose': {
      const { kinds } = command
      await client.updateEndpoint({ endpointId, kinds: [...kinds], allKinds: kinds.length === 0 })
      return 'done'
    }
    case 'rotate': {
      const overlap = durationFromMs(command.overlapMs)
      const { secret } = await client.rotateSecret({ endpointId, overlap })
      let number = 1
      while (drive.secrets.has(`${command.endpoint} ${number}`)) number += 1
      drive.secrets.set(`${command.endpoint} ${number}`, secret)
      return 'done'
    }
    case 'test':
      await client.sendTestEvent({ endpointId })
      return 'done'
    case 'recover': {
      const since = timestampFromMs(command.sinceMs)
      return `${(await client.recover({ endpointId, since })).recovered}`
    }
  }
}

async function publish(
  drive: Drive,
  events: Extract<Command, { kind: 'publish' }>['events'],
): Promise<string> {
  const written = events.map(({ business, live, kind }) => {
    const businessId = idOf(drive, business)
    const { id, payload } = (kind === 'ACCOUNT_CREATED' ? accountEvent : paymentEvent)(businessId)
    const event = create(EventSchema, { ...fromBinary(EventSchema, payload), kind, live })
    return [id, businessId, live, kind, Buffer.from(toBinary(EventSchema, event))] as const
  })
  await drive.durablePool.query(
    `insert into outbox
        (event_id, business_id, live, kind, occurred_at, payload, subject_id, pending_minor)
      select event_id, business_id, live, kind, now(), payload, 'txn_test', (kind = 'PAYMENT_NOTIFICATION')::int
      from unnest($1::text[], $2::text[], $3::boolean[], $4::text[], $5::bytea[])
        with ordinality as g(event_id, business_id, live, kind, payload, number) order by number`,
    [0, 1, 2, 3, 4].map((column) => written.map((each) => each[column as 0])),
  )
  return 'done'
}

/** Ends the last partition of deliveries and of attempts after all events. */
async function cut({ durablePool, position }: Drive): Promise<string> {
  for (const table of ['webhook_delivery', 'webhook_attempt']) {
    // An instance may have it locked.
    await waitFor(() =>
      durablePool.query('select cut_partition($1, $2, $2)', [table, `${position + 1n}`]),
    )
  }
  return 'done'
}

// Waiting

/** Waits until instances are quiet, with everything that follows in the model. */
async function settle(drive: Drive): Promise<void> {
  const { world, inbox, tally } = drive
  const endMs = Date.now() + WAIT_LIMIT_MS / 2
  for (;;) {
    await sequence(drive.durablePool)
    for (const { webhooks } of drive.instances) {
      webhooks.wake()
      webhooks.context.onDue()
    }
    await readLog(drive)
    const reason = await whyNotQuiet(drive)
    if (reason === DUE_BY_ONE_CLOCK) passTime(drive)
    if (reason === '') {
      for (const request of inbox.splice(0)) {
        const wrong = received(world, request)
        if (wrong !== '') {
          const { endpoint, sequence: number, outcome } = request
          throw new Error(`${endpoint} was sent its event ${number} (${outcome}), but ${wrong}`)
        }
      }
      const wrong = finish(world, tally.batches === 1)
      tally.batches = 0
      if (wrong !== '') throw new Error(wrong)
      if (!world.expected.some(({ isCertain }) => isCertain)) break
    }
    if (Date.now() > endMs) {
      const missing = world.expected.map(({ kind, subject }) => `${kind} ${subject}`)
      throw new Error(`it does not become quiet: ${reason || missing}`)
    }
    await sleep(2)
  }
  // What may follow may also come a little later.
  world.expected = world.expected.filter((each) => each.step >= world.step - 1)
}

async function readLog(drive: Drive): Promise<void> {
  const { rows } = await drive.durablePool.query(
    `select l.position, l.event_id, l.business_id, l.live, l.business_sequence, o.kind, o.subject_id
      from event_log l join outbox o on o.seq = l.outbox_seq where l.position > $1 order by l.position`,
    [drive.position],
  )
  const names = new Map([...drive.ids].map(([name, id]) => [id, name]))
  for (const row of rows) {
    drive.position = BigInt(row.position)
    logged(drive.world, {
      id: row.event_id,
      live: row.live,
      kind: row.kind,
      business: names.get(row.business_id)!,
      subject: names.get(row.subject_id),
      sequence: Number(row.business_sequence),
    })
  }
}

/** The instance of that clock may have a request in progress, so that it sends no other. */
const DUE_BY_ONE_CLOCK = 'some are due by the clock of one instance'

/** @returns the work that the instances still have to do; "" if none */
async function whyNotQuiet(drive: Drive): Promise<string> {
  const { tally, world, inbox } = drive
  if (tally.answered !== tally.recorded)
    return `${tally.answered - tally.recorded} are not recorded`
  const { rows } = await drive.durablePool.query(
    `with pending as (
        select d.*, e.ordered, l.event_id, d.leased_until > $1 as leased, d.position = min(d.position)
            over (partition by d.endpoint_id) as first, e.disabled_at is null and e.deleted_at is null as enabled
        from webhook_delivery d join webhook_endpoint e on e.id = d.endpoint_id
        left join event_log l on l.position = d.position where d.state = 'PENDING'
      )
      select (select count(*)::int from outbox) - (select count(*)::int from event_log) as unsequenced,
        (select coalesce(max(position), 0) from event_log)
          > (select max(position) from webhook_dispatcher) as undispatched,
        array(select greatest(due_at, leased_until) <= $2 from pending
          where enabled and (first or not ordered) and greatest(due_at, leased_until) <= $1) as due,
        (select coalesce(json_agg(json_build_array(endpoint_id, coalesce(event_id, ''), leased_until)), '[]')
          from pending where leased) as leased`,
    [new Date(latestClock(drive)), new Date(drive.clock.nowMs)],
  )
  const { unsequenced, undispatched, due, leased } = rows[0]
  const isHeld = ([endpointId, eventId, until]: readonly [string, string, string]) => {
    const isSame = (each: Request) => {
      const isExpired = world.events.some(({ id, isExpired }) => id === each.eventId && isExpired)
      return (
        idOf(drive, each.endpoint) === endpointId && eventId === (isExpired ? '' : each.eventId)
      )
    }
    const isNew = inbox.some((each) => each.outcome === 'hold' && isSame(each))
    return (
      isNew ||
      [...world.held.values()].some(({ request, delivery: { claim } }) => {
        if (claim?.request !== request.number || !isSame(request)) return false
        return claim.lease.fromMs <= Date.parse(until) && Date.parse(until) <= claim.lease.toMs
      })
    )
  }
  if (unsequenced > 0) return `${unsequenced} events are not sequenced`
  if (undispatched) return 'events are not dispatched'
  const left = leased.filter((each: [string, string, string]) => !isHeld(each))
  if (left.length > 0) return `${left} are claimed`
  if (due.includes(true)) return `${due.length} are due`
  if (due.length > 0) return DUE_BY_ONE_CLOCK
  return tally.answered === tally.recorded ? '' : 'an attempt is being recorded'
}

// The names of the model

const latestClock = ({ instances }: Drive) => Math.max(...instances.map(({ now }) => now()))

export function nextClient(drive: Drive): Client<typeof WebhookService> {
  drive.calls += 1
  return drive.instances[drive.calls % drive.instances.length]!.client
}

export const idOf = ({ ids }: Drive, name: string) => ids.get(name)!

const urlOf = ({ receiver }: Drive, path: string) => `${receiver.url}${path}`

async function deliveryIdOf(drive: Drive, endpoint: string, event: number): Promise<string> {
  const { rows } = await drive.durablePool.query<{ id: string }>(
    `select id from webhook_delivery where endpoint_id = $1 and sequence = $2`,
    [idOf(drive, endpoint), drive.world.events[event]!.sequence],
  )
  return rows[0]?.id ?? 'dlv_none'
}

async function positionOf({ durablePool }: Drive, eventId: string): Promise<bigint> {
  const { rows } = await durablePool.query('select position from event_log where event_id = $1', [
    eventId,
  ])
  return BigInt(rows[0]?.position ?? 0)
}
