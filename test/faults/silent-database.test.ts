import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { Code, ConnectError, createClient, type Transport } from '@connectrpc/connect'
import { expect, onTestFinished, test } from 'vitest'
import { Schedule } from '../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { query } from '../support/database.ts'
import { grpcTransport } from '../support/grpc-client.ts'
import { hasNats, startNats } from '../support/nats.ts'
import { openBusinessOver } from '../support/opened-account.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { startProxy } from '../support/proxy.ts'
import type { Receiver } from '../support/receiver.ts'
import { scrape } from '../support/scrape.ts'
import { untilServed, waitFor } from '../support/wait-for.ts'
import {
  type Follower,
  follow,
  idsOf,
  keepPaying,
  readyz,
  recordPayment,
  seconds,
  startHttpsReceiver,
} from './scene.ts'
import { startPair, startPrimary } from './standby.ts'

/** Starts the service with a proxy before its database. */
async function startBehindProxy(target: URL, environment: NodeJS.ProcessEnv = {}) {
  const proxy = await startProxy(() => target.href)
  const service = await startProcess(
    { DATABASE_URL: proxy.through, LOG_LEVEL: 'warn', ...environment },
    true,
  )
  onTestFinished(() => service.kill())
  return { proxy, service }
}

/** Opens an account. @returns what pays into it, through any instance */
async function openPayable(transport: Transport) {
  const { businessId, accountNumber } = await openBusinessOver(transport)
  const pay = (through: Transport) => (sessionId: string) =>
    recordPayment(createClient(TransactionService, through), accountNumber, sessionId, 30_000)
  return { businessId, pay }
}

async function startPayable(databaseUrl: string) {
  const behind = await startBehindProxy(new URL(databaseUrl))
  const transport = grpcTransport(behind.service.grpcUrl)
  const { pay } = await openPayable(transport)
  return { ...behind, pay: pay(transport) }
}

/** One of two instances, each with a proxy of its own before the database, and with its own callers. */
interface Instance extends ServiceProcess {
  readonly name: string
  readonly proxy: Awaited<ReturnType<typeof startProxy>>
  readonly payers: ReturnType<typeof keepPaying>
  readonly subscribers: readonly Follower[]
}

/** Starts a receiver of webhooks and a broker. @returns the settings of instances that send to them */
async function startPeers() {
  const { receiver, environment } = await startHttpsReceiver()
  const nats = hasNats ? await startNats() : undefined
  onTestFinished(() => nats?.stop())
  return { receiver, environment: { ...environment, ...(nats && { RELAY_URL: nats.url }) } }
}

/** Starts two instances that are busy: payments, subscribers, webhooks, settlements and the relay. */
async function startInstances(target: URL) {
  const { receiver, environment } = await startPeers()
  const starting = ['first', 'second'].map(async (name) => {
    const behind = await startBehindProxy(target, { ...environment, LOG_LEVEL: 'info' })
    return { name, ...behind }
  })
  const started = await Promise.all(starting)
  const transport = grpcTransport(started[0]!.service.grpcUrl)
  const { businessId, pay } = await openPayable(transport)
  const terms = { schedule: Schedule.INSTANT }
  await createClient(SettlementService, transport).updateSettlementTerms({ businessId, terms })
  for (const ordered of [false, true]) {
    const url = `${receiver.url}/${ordered ? 'ordered' : ''}`
    const endpoint = { businessId, url, kinds: ['PAYMENT_NOTIFICATION'], options: { ordered } }
    await createClient(WebhookService, transport).createEndpoint(endpoint)
  }
  const instances = started.map(({ name, proxy, service }): Instance => {
    const payThere = pay(grpcTransport(service.grpcUrl))
    const payers = keepPaying(payThere, name, { payers: 2, pauseMs: 50 })
    return { ...service, name, proxy, payers, subscribers: [follow(service), follow(service)] }
  })
  for (const { payers } of instances) {
    await waitFor(() => expect(payers.acknowledged.length).toBeGreaterThan(50))
  }
  return { instances, receiver }
}

/** The loops of an instance that have failed, and how often since they last worked. */
function failingLoops(instance: Instance): Map<string, number> {
  const failures = new Map<string, number>()
  for (const line of instance.output().split('\n').slice(0, -1)) {
    if (!line.includes('"loop"')) continue
    const { loop, msg, failures: count } = JSON.parse(line)
    if (msg === 'loop recovered') failures.delete(loop)
    else failures.set(loop, count)
  }
  return failures
}

/** The number of webhooks that an instance has recorded as delivered. */
async function delivered({ httpUrl }: Instance): Promise<number> {
  return (await scrape(httpUrl)).value('inflow_webhook_delivery_lag_seconds_count{mode="live"}')!
}

/** Rows with the positions that work of the background has reached. */
const POSITIONS = `select (select position from sequencer)::int as log,
  (select max(position) from log_follower where name = 'settlement')::int as settlement,
  (select max(position) from log_follower where name = 'figures')::int as figures,
  (select max(position) from webhook_dispatcher)::int as dispatch`

/**
 * Waits until everything has done work that began after this call, at each instance, and no connection of the
 * silence is left. Fails if something waits for what takes a minute, as a lease does.
 */
async function untilResumed(name: string, url: string, instances: readonly Instance[]) {
  const reachableMs = performance.now()
  const [before] = await query<Record<string, number>>(url, POSITIONS)
  const deliveredBefore = await Promise.all(instances.map(delivered))
  const resumed = new Map<string, number>()
  const looks = async (): Promise<Record<string, boolean>> => {
    const [now] = await query<Record<string, number>>(url, POSITIONS)
    const found: Record<string, boolean> = {}
    for (const what of Object.keys(before!)) found[what] = now![what]! > before![what]!
    for (const [index, instance] of instances.entries()) {
      const { payers, subscribers, proxy } = instance
      const { startedMs = 0 } = payers.acknowledged.at(-1) ?? {}
      const of = (what: string) => `${what} of the ${instance.name}`
      found[of('payments')] = startedMs > reachableMs
      found[of('streams')] = subscribers.every(
        ({ events }) => Number(events.at(-1)!.position) > before!['log']!,
      )
      found[of('webhooks')] = (await delivered(instance)) > deliveredBefore[index]!
      found[of('connections')] = proxy.lost() === 0
      found[of('loops')] = proxy.lost() === 0 && failingLoops(instance).size === 0
    }
    return found
  }
  let left = ['']
  // A machine that stands still does not look.
  for (let look = 0; left.length > 0 && look < BOUND_MS / LOOK_MS; look++) {
    const [found] = await Promise.all([looks(), setTimeout(LOOK_MS)])
    left = Object.keys(found).filter((what) => !found[what])
    for (const what of Object.keys(found)) {
      if (found[what] && !resumed.has(what)) resumed.set(what, performance.now() - reachableMs)
    }
  }
  const texts = [...resumed].map(([what, ms]) => `${what} ${seconds(ms)}`)
  process.stdout.write(`${name}, after the primary was reachable: ${texts.join(', ')}\n`)
  expect(left).toEqual([])
}

const BOUND_MS = 45_000
const LOOK_MS = 100

test('everything resumes soon after a silent primary is replaced, or can be reached again', async () => {
  const pair = await startPair()
  const target = new URL(pair.primary.url)
  const { instances, receiver } = await startInstances(target)
  const [first, second] = instances as [Instance, Instance]

  first.proxy.silence('to the server')
  second.proxy.silence('from the server')
  // A deadline has passed, and an attempt to connect in silence.
  for (const instance of instances) {
    await waitFor(() => expect(failingLoops(instance).get('database heartbeat')).toBeGreaterThan(1))
    expect((await readyz(instance)).body).toMatchObject({ status: 'not ready' })
  }
  await pair.caughtUp()
  await pair.promote()
  target.href = pair.standby.url
  for (const { proxy } of instances) proxy.endSilence()
  await untilResumed('replaced', pair.standby.url, instances)

  first.proxy.silence('from the server')
  second.proxy.silence('to the server')
  for (const { proxy } of instances) proxy.endSilence()
  await untilResumed('forgotten connections', pair.standby.url, instances)

  await Promise.all(instances.map(({ payers }) => payers.stop()))
  await expectPayments(pair.standby.url, instances)
  await expectLog(pair.standby.url, instances, receiver)
  for (const instance of instances) {
    await waitFor(async () => expect((await readyz(instance)).body).toEqual({ status: 'ready' }))
  }
})

/** Every acknowledged payment is recorded, and callers got `unavailable` in time for the others. */
async function expectPayments(url: string, instances: readonly Instance[]): Promise<void> {
  const refusals = instances.flatMap(({ payers }) => payers.refusals)
  const acknowledged = instances.flatMap(({ payers }) => payers.acknowledged)
  const sessions = acknowledged.map(({ sessionId }) => `'${sessionId}'`)
  const recorded = `select count(*)::int as count from transaction where session_id in (${sessions})`
  expect(await query(url, recorded)).toEqual([{ count: sessions.length }])
  const slowest = Math.max(...refusals.map(({ tookMs }) => tookMs))
  process.stdout.write(
    `${sessions.length} acknowledged, ${refusals.length} refused, the slowest after ${seconds(slowest)}\n`,
  )
  expect(new Set(refusals.map(({ code }) => code))).toEqual(new Set([Code.Unavailable]))
}

/** Subscribers have exactly the log, and receivers all of it, without a wait for a lease of a minute. */
async function expectLog(url: string, instances: readonly Instance[], receiver: Receiver) {
  const log = await query<{ id: string; kind: string }>(
    url,
    `select l.event_id as id, o.kind from event_log l join outbox o on o.seq = l.outbox_seq order by position`,
  )
  const subscribers = instances.flatMap((each) => each.subscribers)
  for (const { events } of subscribers) {
    await waitFor(() => expect(idsOf(events)).toEqual(log.map(({ id }) => id)))
  }
  const paid = log.flatMap(({ id, kind }) => (kind === 'PAYMENT_NOTIFICATION' ? [id] : []))
  const arrived = (path: string) => {
    const requests = receiver.requests.filter((each) => each.path === path)
    return [...new Set(requests.map(({ headers }) => String(headers['webhook-id'])))]
  }
  await waitFor(() => expect(arrived('/').sort()).toEqual(paid.toSorted()))
  await waitFor(() => expect(arrived('/ordered')).toEqual(paid))
  const repeats = receiver.requests.length - 2 * paid.length
  process.stdout.write(
    `${subscribers.length} subscribers have exactly the ${log.length} events of the log; ` +
      `${paid.length} webhooks to each of 2 endpoints, ${repeats} repeats\n`,
  )
}

test('without its synchronous standby payments are unavailable, and repeats are duplicates', async () => {
  const pair = await startPair()
  const { service, pay } = await startPayable(pair.primary.url)
  const { url } = pair.primary
  await query(url, "alter system set synchronous_standby_names = '*'", 'select pg_reload_conf()')
  await waitFor(async () => {
    const sync = 'select sync_state from pg_stat_replication'
    expect(await query(url, sync)).toEqual([{ sync_state: 'sync' }])
  })
  expect(await pay('first')).toMatchObject({ outcome: 1 })

  await pair.cutOff()
  const sessions = ['second', 'third', 'fourth']
  const startedMs = performance.now()
  const failures = await Promise.all(
    sessions.map((sessionId) => pay(sessionId).catch((error) => ConnectError.from(error).code)),
  )
  const tookMs = performance.now() - startedMs
  expect(failures).toEqual(sessions.map(() => Code.Unavailable))
  await waitFor(async () =>
    expect((await readyz(service)).body).toEqual({
      status: 'not ready',
      reasons: ['payments wait for the database'],
    }),
  )
  // Callers repeat; a repeat is not acknowledged before the standby has the payment.
  const again = keepPaying(
    (sessionId) => pay(sessionId.endsWith('-0') ? 'second' : sessionId),
    'again',
  )
  const others = keepPaying(pay, 'others', { repeats: false })
  // Each of the eight is refused twice.
  await waitFor(() => expect(others.refusals.length).toBeGreaterThan(15))
  expect(others.acknowledged).toEqual([])
  expect(again.acknowledged).toEqual([])
  const backends = `select count(*)::int as count,
      count(*) filter (where wait_event = 'SyncRep')::int as waiting
    from pg_stat_activity where backend_type = 'client backend'`
  const [{ count, waiting } = { count: 0, waiting: 0 }] = await query<{
    count: number
    waiting: number
  }>(url, backends)

  await pair.reconnect()
  await waitFor(() => expect(again.acknowledged.length).toBeGreaterThan(0))
  await Promise.all([again.stop(), others.stop()])
  const repeats = await Promise.all(sessions.map((session) => untilServed(() => pay(session))))
  process.stdout.write(
    `synchronous standby away: refused after ${seconds(tookMs)}; ${count} connections at the server, ${waiting} of them wait for it\n`,
  )
  expect(repeats.map(({ outcome }) => outcome)).toEqual(sessions.map(() => 2))
  expect(count).toBeLessThan(70)
  await waitFor(async () => expect((await readyz(service)).body).toEqual({ status: 'ready' }))
})

test('a password that the database suddenly asks for takes no connections away', async () => {
  const { server, folder } = await startPrimary()
  const rules = join(folder, 'pg_hba.conf')
  const askAll = await readFile(rules, 'utf8')
  const trust = async (text: string) => {
    await writeFile(rules, text)
    await query(server.url, 'select pg_reload_conf()')
  }
  await query(server.url, "create role app login superuser password 'secret'")
  await trust(`host all app all trust\n${askAll}`)
  const url = Object.assign(new URL(server.url), { username: 'app', password: '' })
  const { proxy, pay } = await startPayable(url.href)
  await pay('first')
  await trust(askAll)
  proxy.cut()
  const payers = keepPaying(pay, 'password')
  await waitFor(() => expect(payers.refusals.length).toBeGreaterThan(20))
  const connections = mostConnections(proxy)
  await waitFor(() => expect(payers.refusals.length).toBeGreaterThan(80))
  process.stdout.write(`wrong password: at most ${connections()} connections at once\n`)
  expect(connections()).toBeLessThan(10)
  expect(new Set(payers.refusals.map(({ code }) => code))).toEqual(new Set([Code.Unavailable]))
  await trust(`host all app all trust\n${askAll}`)
  await waitFor(() => expect(payers.acknowledged.length).toBeGreaterThan(0))
  await payers.stop()
})

function mostConnections(proxy: Awaited<ReturnType<typeof startProxy>>): () => number {
  let most = 0
  const timer = setInterval(() => {
    most = Math.max(most, proxy.connections())
  }, 5)
  onTestFinished(() => clearInterval(timer))
  return () => most
}
