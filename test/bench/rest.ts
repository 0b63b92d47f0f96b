import { toBinary } from '@bufbuild/protobuf'
import {
  GetTransactionResponseSchema,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { fastifyServer, grpcServer } from './bare-servers.ts'
import type { Bench } from './bench.ts'
import { startChild } from './child.ts'
import { openHttp } from './clients.ts'
import { startGrpcLoad } from './grpc-load.ts'
import { type Caller, runCallers, underLoad } from './load.ts'
import { type Benchmark, type Contender, compare } from './rounds.ts'
import {
  accountNumberOf,
  SEEDED_BUSINESS,
  seedAccounts,
  seedTransactions,
  sessionIdOf,
} from './seed.ts'
import { adminClient, openBusiness, type Service, startService } from './service.ts'

const LOOK_UPS = 'REST getTransaction, 64 connections'
const SERVERS = new URL('bare-servers.ts', import.meta.url).pathname

/** Look-ups of payments over REST, against one query of a bare server. */
export const lookup: Benchmark = async (bench) => {
  const transactions = transactionsOf(bench)
  const service = await openWithPayments(bench, transactions)
  // The yardstick has the same rows in a database of its own, for a business with a known id.
  const databaseUrl = await bench.createDatabase()
  await seedAccounts(databaseUrl)
  await seedTransactions(databaseUrl, SEEDED_BUSINESS, transactions)
  const bare = await startChild(bench, SERVERS, fastifyServer, { route: 'look-up', databaseUrl })
  return compare(bench, LOOK_UPS, 1.8, [
    await lookUps(bench, 'Inflow', service, transactions),
    await underPosts(bench, 'bare Fastify, one query', bare.pid, bare.ready, { transactions }),
  ])
}

/** The same, against a bare server that asks no database. */
export const lookupCeiling: Benchmark = async (bench) => {
  const transactions = transactionsOf(bench)
  const service = await openWithPayments(bench, transactions)
  const response = await new Promise<string>((resolve, reject) => {
    const post = openHttp(restUrl(service), 1, `Bearer ${service.secretKey}`)
    post(JSON.stringify({ session_id: sessionIdOf(1) }), (failure, body) =>
      failure === undefined ? resolve(body) : reject(new Error(failure)),
    )
  })
  const bare = await startChild(bench, SERVERS, fastifyServer, { route: 'constant', response })
  return compare(bench, LOOK_UPS, 0.4, [
    await lookUps(bench, 'Inflow', service, transactions),
    await underPosts(bench, 'bare Fastify, constant', bare.pid, bare.ready, { transactions }),
  ])
}

/** Accounts that are opened over REST, against one insert of a bare server. */
export const create: Benchmark = async (bench) => {
  const service = await startService(bench, await bench.createDatabase())
  const { secretKey } = await openBusiness(service, {})
  const databaseUrl = await bench.createDatabase()
  await seedAccounts(databaseUrl)
  const bare = await startChild(bench, SERVERS, fastifyServer, { route: 'insert', databaseUrl })
  const url = restUrl(service, 'generateVirtualAccount')
  return compare(bench, 'REST generateVirtualAccount, 64 connections', 0.8, [
    await underPosts(bench, 'Inflow', service.pid, url, 'creations', secretKey),
    await underPosts(bench, 'bare Fastify, one insert', bare.pid, bare.ready, 'creations'),
  ])
}

/** Look-ups of payments over gRPC, against a bare server that asks no database. */
export const grpcLookup: Benchmark = async (bench) => {
  const transactions = transactionsOf(bench)
  const databaseUrl = await bench.createDatabase()
  await seedAccounts(databaseUrl)
  await seedTransactions(databaseUrl, SEEDED_BUSINESS, transactions)
  const service = await startService(bench, databaseUrl)
  const businessId = SEEDED_BUSINESS
  const client = adminClient(service, TransactionService)
  const response = await client.getTransaction({ businessId, sessionId: sessionIdOf(1) })
  const bytes = toBinary(GetTransactionResponseSchema, response)
  const bare = await startChild(bench, SERVERS, grpcServer, bytes)
  const calls = { kind: 'look-up', businessId, transactions } as const
  const { token } = service
  const ours = await startGrpcLoad(bench, service, calls)
  const theirs = await startGrpcLoad(bench, { address: bare.ready, token }, calls)
  return compare(bench, 'gRPC GetTransaction, 64 in flight', 0.6, [
    underLoad(bench, 'Inflow', ours, { server: service.pid }),
    underLoad(bench, 'bare grpc-js, constant', theirs, { server: bare.pid }),
  ])
}

const transactionsOf = ({ quick }: Bench) => (quick ? 20_000 : 100_000)

/** Starts the service on a database with payments of a business that has a key. */
async function openWithPayments(
  bench: Bench,
  transactions: number,
  environment: NodeJS.ProcessEnv = {},
) {
  const databaseUrl = await bench.createDatabase()
  const service = await startService(bench, databaseUrl, environment)
  const { businessId, secretKey } = await openBusiness(service, {})
  await seedAccounts(databaseUrl)
  await seedTransactions(databaseUrl, businessId, transactions)
  return { ...service, secretKey, databaseUrl }
}

function restUrl({ httpUrl }: Service, path = 'getTransaction'): string {
  return `${httpUrl}/v2/thirdparty/${path}/`
}

/** @param newest how many of the last transactions are looked up; absent: all */
export function lookUps(
  bench: Bench,
  name: string,
  service: Service & { readonly secretKey: string },
  transactions: number,
  newest?: number,
): Promise<Contender> {
  const bodies = { transactions, ...(newest !== undefined && { newest }) }
  return underPosts(bench, name, service.pid, restUrl(service), bodies, service.secretKey)
}

type Bodies = 'creations' | { readonly transactions: number; readonly newest?: number }

const CONNECTIONS = 64

/** A URL of a server under load. */
async function underPosts(
  bench: Bench,
  name: string,
  server: number,
  url: string,
  bodies: Bodies,
  key?: string,
): Promise<Contender> {
  const options = { url, bodies, authorization: key === undefined ? undefined : `Bearer ${key}` }
  const load = await startChild(bench, import.meta.filename, httpLoad, options)
  return underLoad(bench, name, load, { server })
}

export async function httpLoad(options: {
  readonly url: string
  readonly bodies: Bodies
  readonly authorization: string | undefined
}) {
  const { bodies } = options
  const post = openHttp(options.url, CONNECTIONS, options.authorization)
  const next = bodies === 'creations' ? newCreation : () => newLookUp(bodies)
  const callers = Array<Caller>(CONNECTIONS).fill((done) => post(next(), done))
  return { ready: undefined, run: (seconds: number) => runCallers(callers, seconds) }
}

function newLookUp({ transactions, newest = transactions }: Exclude<Bodies, string>): string {
  return `{"session_id":"${sessionIdOf(transactions - Math.floor(Math.random() * newest))}"}`
}

let created = 0

/** References are unique by process and request. */
function newCreation(): string {
  created += 1
  const number = accountNumberOf(created)
  const reference = `b${process.pid}`.padEnd(14, '-') + number
  return `{"reference":"${reference}","email":"ada.obi${number}@example.com","phone":"080${number.slice(2).replace(/^0/, '9')}","firstName":"Ada","lastName":"Obi","bank":"9PSB"}`
}
