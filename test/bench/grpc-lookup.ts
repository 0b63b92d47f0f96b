import { toBinary } from '@bufbuild/protobuf'
import { createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import {
  GetTransactionResponseSchema,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import type { Bench } from './bench.ts'
import { type Contender, inTurn } from './in-turn.ts'
import type { GrpcLoadOptions } from './load/grpc-load.ts'
import type { LoadAnswer, LoadCommand } from './load/lanes.ts'
import { underLoad } from './load/under-load.ts'
import { notes } from './notes.ts'
import { startProgram } from './program.ts'
import type { Row } from './row.ts'
import {
  SEEDED_BUSINESS,
  seedAccounts,
  seedTransactions,
  sessionIdOf,
  transactionsOf,
} from './seed.ts'
import { type ServiceProcess, startServiceProcess } from './service-process.ts'
import type { GrpcServerOptions, GrpcServerReady } from './yardstick/grpc-server.ts'

export const grpcLookup: Row = {
  name: 'grpc-lookup',
  async measure(bench) {
    const databaseUrl = await bench.createDatabase()
    await seedAccounts(databaseUrl)
    await seedTransactions(databaseUrl, SEEDED_BUSINESS, transactionsOf(bench))
    const service = await startServiceProcess(bench, databaseUrl)
    const options: GrpcServerOptions = { answer: await answerOf(service) }
    const bare = await startProgram<GrpcServerReady, never, never>(
      'yardstick/grpc-server.ts',
      options,
    )
    bench.onEnd(bare.stop)
    const address = `127.0.0.1:${bare.ready.port}`
    const { adminToken: token, grpcAddress, pid } = service
    const figures = await inTurn(
      {
        ours: await underLookups(bench, 'Inflow', { address: grpcAddress, token }, pid),
        bare: await underLookups(bench, 'bare grpc-js, constant', { address, token }, bare.pid),
      },
      { ...bench, before: bench.checkpoint },
    )
    return [
      {
        name: 'grpc-lookup',
        what: 'gRPC GetTransaction, 64 in flight',
        unit: '/s',
        ours: figures.ours,
        yardstick: figures.bare,
        target: { atLeastTimes: 0.6 },
        notes: notes(figures.ours, figures.bare),
      },
    ]
  },
}

/** The bytes of one answer, for the yardstick to return. */
async function answerOf(service: ServiceProcess): Promise<Uint8Array> {
  const baseUrl = `http://${service.grpcAddress}`
  const client = createClient(TransactionService, createGrpcTransport({ baseUrl }))
  const answer = await client.getTransaction(
    { businessId: SEEDED_BUSINESS, sessionId: sessionIdOf(1) },
    { headers: { authorization: `Bearer ${service.adminToken}` } },
  )
  return toBinary(GetTransactionResponseSchema, answer)
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
  const load = await startProgram<undefined, LoadCommand, LoadAnswer>('load/grpc-load.ts', options)
  bench.onEnd(load.stop)
  return underLoad(bench, { name, load, server })
}
