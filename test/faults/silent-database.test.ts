import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Code, ConnectError, createClient } from '@connectrpc/connect'
import { expect, onTestFinished, test, vi } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { startProxy } from '../client/proxy.ts'
import { grpcTransport } from '../support/grpc-client.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { query, startPair, startPrimary } from './standby.ts'

vi.setConfig({ testTimeout: 240_000 })

const WAIT = { timeout: 60_000, interval: 50 }

/** Starts the service with a proxy before its database, and opens an account. */
async function startBehindProxy(databaseUrl: string) {
  const target = new URL(databaseUrl)
  const proxy = await startProxy(() => target.host)
  const service = await startProcess(
    {
      DATABASE_URL: Object.assign(new URL(databaseUrl), { host: proxy.address }).href,
      LOG_LEVEL: 'warn',
    },
    true,
  )
  onTestFinished(() => service.kill())
  const transport = grpcTransport(service.grpcUrl)
  const { business } = await createClient(BusinessService, transport).createBusiness({
    name: 'Ada',
  })
  const { account } = await createClient(AccountService, transport).createAccount({
    ...{ businessId: business!.id, reference: 'order-1', bank: Bank.BANK_PROVIDUS },
    ...{ firstName: 'Ada', lastName: 'Obi', email: 'ada@example.com', phone: '08012345678' },
  })
  const { accountNumber } = account!
  const transactions = createClient(TransactionService, transport)
  const pay = (sessionId: string) =>
    transactions.recordPayment(
      { bank: Bank.BANK_PROVIDUS, accountNumber, sessionId, amountMinor: 100n },
      { timeoutMs: 30_000 },
    )
  return { proxy, service, target, pay, transactions }
}

/** Pays without a pause until it is stopped. A payment is repeated until it is acknowledged. */
function keepPaying(
  pay: (sessionId: string) => Promise<unknown>,
  name: string,
  { repeats = true } = {},
) {
  const acknowledged: { sessionId: string; atMs: number }[] = []
  const refusals: { code: Code; tookMs: number }[] = []
  let stopped = false
  const run = async (payer: number) => {
    for (let number = 0; !stopped; ) {
      const sessionId = `${name}-${payer}-${number}`
      const startedMs = performance.now()
      try {
        await pay(sessionId)
        acknowledged.push({ sessionId, atMs: performance.now() })
        number += 1
      } catch (error) {
        const { code } = ConnectError.from(error)
        refusals.push({ code, tookMs: performance.now() - startedMs })
        if (!repeats) number += 1
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
    }
  }
  const runs = [1, 2, 3, 4, 5, 6, 7, 8].map(run)
  return {
    acknowledged,
    refusals,
    async stop() {
      stopped = true
      await Promise.all(runs)
    },
  }
}

/** @returns the response of `/readyz`, which takes less than two seconds */
async function readyz({ httpUrl }: ServiceProcess): Promise<unknown> {
  const response = await fetch(`${httpUrl}/readyz`, { signal: AbortSignal.timeout(2_000) })
  return response.json()
}

const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`

test('payments are accepted 12 s after a silent primary is replaced', async () => {
  const pair = await startPair()
  const { proxy, service, target, pay } = await startBehindProxy(pair.primary.url)
  const payers = keepPaying(pay, 'silent')
  await vi.waitFor(() => expect(payers.acknowledged.length).toBeGreaterThan(100), WAIT)
  await pair.caughtUp()

  const silentMs = performance.now()
  proxy.silence()
  await vi.waitFor(() => expect(payers.refusals.length).toBeGreaterThan(0), WAIT)
  expect(await readyz(service)).toMatchObject({ status: 'not ready' })
  await pair.promote()
  // A few deadlines and attempts to connect pass in silence.
  await vi.waitFor(() => expect(performance.now() - silentMs).toBeGreaterThan(15_000), WAIT)
  expect(await readyz(service)).toMatchObject({ status: 'not ready' })
  const before = payers.acknowledged.length
  target.href = pair.standby.url
  const reachableMs = performance.now()
  proxy.endSilence()

  await vi.waitFor(() => expect(payers.acknowledged.length).toBeGreaterThan(before), WAIT)
  const outageMs = payers.acknowledged[before]!.atMs - reachableMs
  await vi.waitFor(async () => expect(await readyz(service)).toEqual({ status: 'ready' }), WAIT)
  await payers.stop()
  const slowest = Math.max(...payers.refusals.map(({ tookMs }) => tookMs))
  const late = payers.acknowledged.slice(before).map(({ sessionId }) => sessionId)
  process.stdout.write(
    `silent database: accepted ${seconds(outageMs)} after the new primary was reachable; ${before} ` +
      `acknowledged before, ${late.length} after; ${payers.refusals.length} refused, the slowest after ${seconds(slowest)}\n`,
  )
  expect(outageMs).toBeLessThan(12_000)
  expect(slowest).toBeLessThan(20_000)
  expect(new Set(payers.refusals.map(({ code }) => code))).toEqual(new Set([Code.Unavailable]))
  const sessions = late.map((sessionId) => `'${sessionId}'`)
  const recorded = `select count(*)::int as count from transaction where session_id in (${sessions})`
  expect(await query(pair.standby.url, recorded)).toEqual([{ count: late.length }])
})

test('without its synchronous standby payments are unavailable, and repeats are duplicates', async () => {
  const pair = await startPair()
  const { service, pay } = await startBehindProxy(pair.primary.url)
  const { url } = pair.primary
  await query(url, "alter system set synchronous_standby_names = '*'", 'select pg_reload_conf()')
  await vi.waitFor(async () => {
    const sync = 'select sync_state from pg_stat_replication'
    expect(await query(url, sync)).toEqual([{ sync_state: 'sync' }])
  }, WAIT)
  expect(await pay('first')).toMatchObject({ outcome: 1 })

  await pair.cutOff()
  const sessions = ['second', 'third', 'fourth']
  const startedMs = performance.now()
  const failures = await Promise.all(
    sessions.map((sessionId) => pay(sessionId).catch((error) => ConnectError.from(error).code)),
  )
  const tookMs = performance.now() - startedMs
  expect(failures).toEqual(sessions.map(() => Code.Unavailable))
  expect(tookMs).toBeLessThan(20_000)
  expect(await readyz(service)).toEqual({
    status: 'not ready',
    reasons: ['payments wait for the database'],
  })
  // Callers repeat; a repeat is not acknowledged before the standby has the payment.
  const again = keepPaying(
    (sessionId) => pay(sessionId.endsWith('-0') ? 'second' : sessionId),
    'again',
  )
  const others = keepPaying(pay, 'others', { repeats: false })
  await vi.waitFor(() => expect(others.refusals.length).toBeGreaterThan(30), WAIT)
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
  await vi.waitFor(() => expect(again.acknowledged.length).toBeGreaterThan(0), WAIT)
  await Promise.all([again.stop(), others.stop()])
  const repeats = await Promise.all(sessions.map(pay))
  process.stdout.write(
    `synchronous standby away: refused after ${seconds(tookMs)}; ${count} connections at the server, ${waiting} of them wait for it\n`,
  )
  expect(repeats.map(({ outcome }) => outcome)).toEqual(sessions.map(() => 2))
  expect(count).toBeLessThan(70)
  await vi.waitFor(async () => expect(await readyz(service)).toEqual({ status: 'ready' }), WAIT)
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
  const { proxy, pay } = await startBehindProxy(url.href)
  await pay('first')
  await trust(askAll)
  proxy.cut()
  const payers = keepPaying(pay, 'password')
  await vi.waitFor(() => expect(payers.refusals.length).toBeGreaterThan(20), WAIT)
  const connections = mostConnections(proxy)
  await vi.waitFor(() => expect(payers.refusals.length).toBeGreaterThan(80), WAIT)
  process.stdout.write(`wrong password: at most ${connections()} connections at once\n`)
  expect(connections()).toBeLessThan(10)
  expect(new Set(payers.refusals.map(({ code }) => code))).toEqual(new Set([Code.Unavailable]))
  await trust(`host all app all trust\n${askAll}`)
  await vi.waitFor(() => expect(payers.acknowledged.length).toBeGreaterThan(0), WAIT)
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
