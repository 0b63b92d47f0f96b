import { toBinary } from '@bufbuild/protobuf'
import { createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import {
  GetTransactionResponseSchema,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import type { Contender } from './alternate-rounds.ts'
import type { Bench } from './bench.ts'
import { type Benchmark, compareWith } from './benchmark.ts'
import { startChildProcess, startLoad } from './child-process.ts'
import type { GrpcLoadOptions } from './load/grpc-load.ts'
import { loadContender } from './load/load-contender.ts'
import {
  SEEDED_BUSINESS,
  seedAccounts,
  seedTransactions,
  sessionIdOf,
  transactionsOf,
} from './seed.ts'
import { type ServiceProcess, startServiceProcess } from './service-process.ts'
import type { GrpcServerOptions, GrpcServerReady } from './yardstick/grpc-server.ts'

export const grpcLookup: Benchmark = {
  name: 'grpc-lookup',
  async measure(bench) {
    const databaseUrl = await bench.createDatabase()
    await seedAccounts(databaseUrl)
    await seedTransactions(databaseUrl, SEEDED_BUSINESS, transactionsOf(bench))
    const service = await startServiceProcess(bench, databaseUrl)
    const options: GrpcServerOptions = { response: await responseOf(service) }
    const bare = await startChildProcess<GrpcServerReady, never, never>(
      bench,
      'yardstick/grpc-server.ts',
      options,
    )
    const address = `127.0.0.1:${bare.ready.port}`
    const { adminToken: token, grpcAddress, pid } = service
    const row = {
      name: 'grpc-lookup',
      what: 'gRPC GetTransaction, 64 in flight',
      unit: '/s',
      target: { atLeastTimes: 0.6 },
    }
    return compareWith(bench, row, {
      ours: await underLookups(bench, 'Inflow', { address: grpcAddress, token }, pid),
      yardstick: await underLookups(bench, 'bare grpc-js, constant', { address, token }, bare.pid),
    })
  },
}

/** The bytes of one response, for the yardstick to return. */
async function responseOf(service: ServiceProcess): Promise<Uint8Array> {
  const baseUrl = `http://${service.grpcAddress}`
  const client = createClient(TransactionService, createGrpcTransport({ baseUrl }))
  const response = await client.getTransaction(
    { businessId: SEEDED_BUSINESS, sessionId: sessionIdOf(1) },
    { headers: { authorization: `Bearer ${service.adminToken}` } },
  )
  return toBinary(GetTransactionResponseSchema, response)
}

async function underLookups(
  bench: Bench,
  name: string,
  at: Pick<GrpcLoadOptions, 'address' | 'token'>,
  server: number,
): Promise<Contender> {
  const options: GrpcLoadOptions = {
    ...at,
    connections: 4,
    inFlight: 64,
    call: { kind: 'look-up', businessId: SEEDED_BUSINESS, transactions: transactionsOf(bench) },
  }
  const load = await startLoad(bench, 'load/grpc-load.ts', options)
  return loadContender(bench, { name, load, server })
}
