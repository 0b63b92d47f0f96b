import { createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import type { Contender } from './alternate-rounds.ts'
import type { Bench } from './bench.ts'
import { type Benchmark, compareWith } from './benchmark.ts'
import { startChildProcess, startLoad } from './child-process.ts'
import type { HttpLoadOptions } from './load/http-load.ts'
import { loadContender } from './load/load-contender.ts'
import {
  SEEDED_BUSINESS,
  seedAccounts,
  seedTransactions,
  sessionIdOf,
  transactionsOf,
} from './seed.ts'
import { type ServiceProcess, startServiceProcess } from './service-process.ts'
import type { FastifyServerOptions, FastifyServerReady } from './yardstick/fastify-server.ts'

/** Look-ups of payments over REST, against one query of a bare server. */
export const lookup: Benchmark = {
  name: 'lookup',
  async measure(bench) {
    const transactions = transactionsOf(bench)
    const service = await openWithPayments(bench, transactions)
    // The yardstick has the same rows in a database of its own, for a business with a known id.
    const databaseUrl = await seed(bench, SEEDED_BUSINESS, transactions)
    const body = { kind: 'look-up', transactions } as const
    const bare = { route: 'look-up', databaseUrl } as const
    return compareWith(bench, rowOf('lookup', 'REST getTransaction, 64 connections', 1.8), {
      ours: await inflowRest(bench, service, 'getTransaction', body),
      yardstick: await bareFastify(bench, 'bare Fastify, one query', bare, body),
    })
  },
}

/** The same, against a bare server that asks no database. */
export const lookupCeiling: Benchmark = {
  name: 'lookup-ceiling',
  async measure(bench) {
    const transactions = transactionsOf(bench)
    const service = await openWithPayments(bench, transactions)
    const body = { kind: 'look-up', transactions } as const
    const response = await postOnce(service, 'getTransaction', { session_id: sessionIdOf(1) })
    const bare = { route: 'constant', response } as const
    const row = rowOf('lookup-ceiling', 'REST getTransaction, 64 connections', 0.4)
    return compareWith(bench, row, {
      ours: await inflowRest(bench, service, 'getTransaction', body),
      yardstick: await bareFastify(bench, 'bare Fastify, constant', bare, body),
    })
  },
}

const LIMITED_TRANSACTIONS = 100_000

/** Every limit, so high that no call is refused. */
const ON = { RATE_LIMIT_KEY: '1000000', RATE_LIMIT_ADDRESS: '1000000', RATE_LIMIT_FAILED: '10' }
const OFF = { RATE_LIMIT_KEY: 'off', RATE_LIMIT_ADDRESS: 'off', RATE_LIMIT_FAILED: 'off' }

/** The cost of rate limits for a lookup: the service with limits against itself without. */
export const lookupLimits: Benchmark = {
  name: 'lookup-limits',
  slow: true,
  async measure(bench) {
    const transactions = LIMITED_TRANSACTIONS
    const on = await openWithPayments(bench, transactions, ON)
    const off = await openRestService(bench, on.databaseUrl, OFF)
    const body = { kind: 'look-up', transactions } as const
    // Both call as the business that has the transactions.
    const unlimited = { ...off, secretKey: on.secretKey }
    const what = 'REST getTransaction with rate limits, 64 connections'
    return compareWith(bench, rowOf('lookup-limits', what, 0.9), {
      ours: await inflowRest(bench, on, 'getTransaction', body),
      yardstick: {
        ...(await inflowRest(bench, unlimited, 'getTransaction', body)),
        name: 'Inflow without limits',
      },
    })
  },
}

/** Accounts that are opened over REST, against one insert of a bare server. */
export const create: Benchmark = {
  name: 'create',
  async measure(bench) {
    const service = await openRestService(bench, await bench.createDatabase())
    const databaseUrl = await bench.createDatabase()
    await seedAccounts(databaseUrl)
    const body = { kind: 'creation' } as const
    const bare = { route: 'insert', databaseUrl } as const
    const row = rowOf('create', 'REST generateVirtualAccount, 64 connections', 0.8)
    return compareWith(bench, row, {
      ours: await inflowRest(bench, service, 'generateVirtualAccount', body),
      yardstick: await bareFastify(bench, 'bare Fastify, one insert', bare, body),
    })
  },
}

const rowOf = (name: string, what: string, atLeastTimes: number) => ({
  name,
  what,
  unit: '/s',
  target: { atLeastTimes },
})

/** Starts the service on a database with payments of its business. */
async function openWithPayments(
  bench: Bench,
  transactions: number,
  environment: NodeJS.ProcessEnv = {},
): Promise<RestService & { readonly databaseUrl: string }> {
  const databaseUrl = await bench.createDatabase()
  const service = await openRestService(bench, databaseUrl, environment)
  await seedAccounts(databaseUrl)
  await seedTransactions(databaseUrl, service.businessId, transactions)
  return { ...service, databaseUrl }
}

/** @returns the URL of a new database with payments of a business */
async function seed(bench: Bench, businessId: string, transactions: number): Promise<string> {
  const databaseUrl = await bench.createDatabase()
  await seedAccounts(databaseUrl)
  await seedTransactions(databaseUrl, businessId, transactions)
  return databaseUrl
}

const CONNECTIONS = 64

/** A running service with one business. */
export interface RestService extends ServiceProcess {
  readonly businessId: string
  readonly secretKey: string
}

/** Starts the service on a database and creates a business. */
async function openRestService(
  bench: Bench,
  databaseUrl: string,
  environment: NodeJS.ProcessEnv = {},
): Promise<RestService> {
  const service = await startServiceProcess(bench, databaseUrl, environment)
  const baseUrl = `http://${service.grpcAddress}`
  const client = createClient(BusinessService, createGrpcTransport({ baseUrl }))
  const headers = { authorization: `Bearer ${service.adminToken}` }
  const { business, secretKey } = await client.createBusiness({ name: 'Bench' }, { headers })
  return { ...service, businessId: business?.id ?? '', secretKey }
}

/** A REST path of Inflow under load. */
export function inflowRest(
  bench: Bench,
  service: RestService,
  path: string,
  body: HttpLoadOptions['body'],
): Promise<Contender> {
  const url = `${service.httpUrl}/v2/thirdparty/${path}/`
  return underHttpLoad(bench, 'Inflow', service.pid, { url, key: service.secretKey, body })
}

/** A bare Fastify route under the same load. */
async function bareFastify(
  bench: Bench,
  name: string,
  options: FastifyServerOptions,
  body: HttpLoadOptions['body'],
): Promise<Contender> {
  const server = await startChildProcess<FastifyServerReady, never, never>(
    bench,
    'yardstick/fastify-server.ts',
    options,
  )
  const url = `http://127.0.0.1:${server.ready.port}/`
  return underHttpLoad(bench, name, server.pid, { url, key: undefined, body })
}

async function underHttpLoad(
  bench: Bench,
  name: string,
  server: number,
  request: Pick<HttpLoadOptions, 'url' | 'key' | 'body'>,
): Promise<Contender> {
  const options: HttpLoadOptions = { ...request, connections: CONNECTIONS }
  const load = await startLoad(bench, 'load/http-load.ts', options)
  return loadContender(bench, { name, load, server })
}

/** Calls a REST path once; throws unless it succeeds. @returns the body's text */
async function postOnce(service: RestService, path: string, body: unknown): Promise<string> {
  const response = await fetch(`${service.httpUrl}/v2/thirdparty/${path}/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${service.secretKey}` },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${path}: ${response.status} ${text}`)
  return text
}
