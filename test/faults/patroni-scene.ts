import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'pg'
import { expect, onTestFinished } from 'vitest'
import type { Event } from '../../gen/inflow/event/v1/event_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { SubscriptionRefused, subscribe } from '../../src/client/subscribe.ts'
import { query } from '../support/database.ts'
import type { ServiceProcess } from '../support/process.ts'
import { ADMIN_TOKEN } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import type { Cluster } from './patroni-cluster.ts'
import {
  client,
  idsOf,
  keepPaying,
  openNotified,
  recordPayment,
  sessionsOf,
  startInstances,
} from './scene.ts'

/** At each instance. */
const PAYERS = 2
/** Of a payer between two payments, and of the probe between two commits. */
const PAUSE_MS = 250
const PROBE_MS = 100
/** How many payments pass before a fault and after it. */
const PROGRESS = 15

/** Something that happened once or often, and when: milliseconds since the Unix epoch. */
type Moments = readonly number[]

/** A subscriber that keeps the log, and takes back what was lost. */
interface Reader {
  readonly log: Event[]
  readonly arrivals: number[]
  readonly takenBack: Event[]
  /** Why it was refused. */
  readonly breaks: string[]
  interruptions: number
}

/** What a fault did. Times are the longest without a commit, a payment and so on, in milliseconds. */
export interface Outcome {
  readonly database: number
  readonly payments: number
  /** One for each reader. */
  readonly streams: readonly number[]
  readonly webhooks: number
  /** Calls that were refused, and repeated. */
  readonly refused: number
  readonly interruptions: number
  readonly acknowledged: number
  /** Sessions that were acknowledged and are not there. */
  readonly lost: readonly string[]
}

/** Two instances on a cluster, payers at both, three subscribers and a receiver of webhooks. */
export async function startScene(cluster: Cluster) {
  const { instances, receiver } = await startInstances(cluster.url)
  const { businessId, accountNumber } = await openNotified(instances[0], receiver)
  const readers = [[instances[0]], [instances[1]], instances].map(startReader)
  const payers = startPayers(instances, accountNumber)
  const commits = startProbe(cluster.superuserUrl)
  const webhooks: { readonly session: string; readonly atMs: number }[] = []
  const webhooksSoFar = () => {
    for (const { rawBody, at } of receiver.requests.slice(webhooks.length))
      webhooks.push({ session: JSON.parse(rawBody).data.transaction_ref, atMs: at })
    return webhooks
  }

  /** Waits until payments go on, and their events and webhooks have arrived. */
  const goOn = async () => {
    const from = payers.acknowledged().length
    await waitFor(() => {
      const sessionId = payers.acknowledged()[from + PROGRESS]?.sessionId
      expect(sessionId).toBeDefined()
      for (const { log } of readers) expect(sessionsOf(log.slice(-2_000))).toContain(sessionId)
      expect(webhooksSoFar().some(({ session }) => session === sessionId)).toBe(true)
    })
  }

  /** Compares what everyone has with what the database has. @returns what was acknowledged and is not there */
  const compare = async () => {
    const readRecorded = () =>
      query<{ session: string; count: number }>(
        cluster.superuserUrl,
        'select session_id as session, count(*)::int as count from transaction group by session_id',
      )
    const readLog = () =>
      query<{ id: string }>(
        cluster.superuserUrl,
        'select event_id as id from event_log order by position',
      )
    const recorded = await waitFor(async () => {
      // A call that was refused may commit late.
      const found = await readRecorded()
      // With the event of the account.
      expect(await readLog()).toHaveLength(found.length + 1)
      for (const { log } of readers) expect(log).toHaveLength(found.length + 1)
      const arrived = new Set(webhooksSoFar().map(({ session }) => session))
      expect(found.filter(({ session }) => !arrived.has(session))).toEqual([])
      return found
    })
    expect(recorded.filter(({ count }) => count !== 1)).toEqual([])
    const ids = (await readLog()).map(({ id }) => id)
    for (const { log } of readers) expect(idsOf(log)).toEqual(ids)
    const settlement = client(SettlementService, instances[0])
    for await (const { discrepancies } of settlement.verifyLedger({}))
      expect(discrepancies).toEqual([])
    const { balance } = await settlement.getBalance({ businessId })
    expect(balance?.pendingMinor).toBe(100n * BigInt(recorded.length))
    const there = new Set(recorded.map(({ session }) => session))
    return payers
      .acknowledged()
      .flatMap(({ sessionId }) => (there.has(sessionId) ? [] : [sessionId]))
  }

  return {
    readers,
    goOn,
    /** Pays again what was lost, and compares. */
    async payAgain(sessions: readonly string[]) {
      const transactions = client(TransactionService, instances[0])
      await Promise.all(
        sessions.map((session) =>
          waitFor(() => recordPayment(transactions, accountNumber, session)),
        ),
      )
      expect(await compare()).toEqual([])
    },
    /** Injects a fault under load, waits until everything goes on, and compares. */
    async through(fault: () => Promise<void>): Promise<Outcome> {
      payers.start()
      await goOn()
      const sinceMs = Date.now()
      const count = () => ({
        refused: payers.refused(),
        interruptions: readers.reduce((sum, { interruptions }) => sum + interruptions, 0),
      })
      const before = count()
      await fault()
      await goOn()
      const after = count()
      const gap = (moments: Moments) => longestGap(moments, sinceMs)
      const outcome = {
        database: gap(commits),
        payments: gap(payers.acknowledged().map(({ atMs }) => atMs)),
        streams: readers.map(({ arrivals }) => gap(arrivals)),
        webhooks: gap(webhooksSoFar().map(({ atMs }) => atMs)),
        refused: after.refused - before.refused,
        interruptions: after.interruptions - before.interruptions,
      }
      await payers.stop()
      const lost = await compare()
      return { ...outcome, acknowledged: payers.acknowledged().length, lost }
    },
  }
}

function longestGap(moments: Moments, sinceMs: number): number {
  const later = [sinceMs, ...moments.filter((moment) => moment > sinceMs)]
  return Math.max(...later.slice(1).map((moment, index) => moment - later[index]!))
}

function startReader(instances: readonly ServiceProcess[]): Reader {
  const reader: Reader = { log: [], arrivals: [], takenBack: [], breaks: [], interruptions: 0 }
  const stop = new AbortController()
  onTestFinished(() => stop.abort())
  const follow = async (start: Parameters<typeof subscribe>[0]['start']): Promise<void> => {
    let isFirst = true
    for await (const event of subscribe({
      addresses: instances.map(({ grpcAddress }) => grpcAddress),
      token: ADMIN_TOKEN,
      start,
      signal: stop.signal,
      retryMaxMs: 1_000,
      onInterruption: () => {
        reader.interruptions += 1
      },
    })) {
      if (isFirst) {
        // What follows a safe cursor replaces what was received after it.
        const from = reader.log.findIndex(({ position }) => position >= event.position)
        if (from >= 0) reader.takenBack.push(...reader.log.splice(from))
        isFirst = false
      }
      reader.log.push(event)
      reader.arrivals.push(Date.now())
    }
  }
  const run = async () => {
    for (let start: Parameters<typeof follow>[0] = { case: 'beginning', value: true }; start; ) {
      start = await follow(start).then(
        () => undefined,
        (error: unknown) => {
          if (!(error instanceof SubscriptionRefused) || !error.cursor) throw error
          reader.breaks.push(error.reason)
          return { case: 'cursor', value: error.cursor }
        },
      )
    }
  }
  void run()
  return reader
}

/** Pays at all instances, each payment until it is acknowledged. */
function startPayers(instances: readonly ServiceProcess[], accountNumber: string) {
  const clients = instances.map((instance) => client(TransactionService, instance))
  const rounds: ReturnType<typeof keepPaying>[] = []
  const pay = (sessionId: string, payer: number) =>
    recordPayment(clients[payer % clients.length]!, accountNumber, sessionId)
  const stop = async () => rounds.at(-1)?.stop()
  onTestFinished(stop)
  return {
    acknowledged: () => rounds.flatMap((round) => round.acknowledged),
    refused: () => rounds.reduce((sum, { refusals }) => sum + refusals.length, 0),
    start() {
      const payers = PAYERS * clients.length
      const pauses = { pauseMs: PAUSE_MS, refusedMs: PAUSE_MS }
      rounds.push(keepPaying(pay, `${rounds.length}`, { payers, ...pauses }))
    },
    stop,
  }
}

/** Commits over one connection, again and again. @returns when it succeeded */
function startProbe(url: string): Moments {
  const committed: number[] = []
  let isStopped = false
  const commitUntilItFails = async () => {
    const limits = { connectionTimeoutMillis: 1_000, query_timeout: 1_000 }
    const connection = new Client({ connectionString: url, ...limits })
    connection.on('error', () => undefined)
    try {
      await connection.connect()
      while (!isStopped) {
        await connection.query("select pg_logical_emit_message(true, 'probe', '')")
        committed.push(Date.now())
        await pause(PROBE_MS)
      }
    } catch {
      await pause(PROBE_MS)
    } finally {
      void connection.end().catch(() => undefined)
    }
  }
  const run = async () => {
    while (!isStopped) await commitUntilItFails()
  }
  const running = run()
  onTestFinished(async () => {
    isStopped = true
    await running
  })
  return committed
}
