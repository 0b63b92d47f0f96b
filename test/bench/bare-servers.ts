import { createServer } from 'node:http2'
import { type DescMessage, fromBinary, toBinary } from '@bufbuild/protobuf'
import { connectNodeAdapter } from '@connectrpc/connect-node'
import { Server, ServerCredentials, type sendUnaryData } from '@grpc/grpc-js'
import Fastify from 'fastify'
import pg from 'pg'
import {
  EventService,
  SubscribeResponseSchema,
} from '../../gen/inflow/event/v1/event_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { newId, newReference } from '../../src/core/ids.ts'
import { listen } from '../support/listen.ts'
import { accountNumberOf, SEEDED_BUSINESS } from './seed.ts'

/**
 * A route as a good engineer would write it for this work alone: a kept plan, a pool, a schema that serialises the
 * response; no authentication, no validation, no log, no metrics. Ready: its URL.
 */
export async function fastifyServer(
  options:
    | { readonly route: 'constant'; readonly response: string }
    | { readonly route: 'look-up' | 'insert'; readonly databaseUrl: string },
) {
  const app = Fastify()
  if (options.route === 'constant') {
    const { response } = options
    app.post('/', (_request, reply) => {
      reply.header('content-type', 'application/json; charset=utf-8').send(response)
    })
  } else {
    const pool = new pg.Pool({
      connectionString: options.databaseUrl,
      max: 16,
      // Otherwise the look-up would be planned anew each time, over all partitions.
      options: '-c plan_cache_mode=force_generic_plan',
    })
    const [serve, data] = options.route === 'insert' ? [insert, ACCOUNT] : [lookUp, TRANSACTION]
    const response = object({ status: { type: 'boolean' }, ...texts('message'), data })
    app.post('/', { schema: { response: { 200: response } } }, (request) =>
      serve(pool, request.body as Record<string, string>),
    )
  }
  return { ready: `${await app.listen({ host: '127.0.0.1', port: 0 })}/` }
}

/** With its schema, Fastify compiles what writes the response. */
const object = (properties: object) => ({ type: 'object', properties })

const texts = (...names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, { type: 'string' }]))

const TRANSACTION = object({
  ...texts('reference', 'session_id', 'transaction_ref'),
  amount: { type: 'number' },
  status: { type: 'string' },
  is_settled: { type: 'boolean' },
  ...texts('method', 'bank', 'nuban', 'account_name', 'customer', 'email', 'created_at'),
})

const ACCOUNT = object({
  reference: { type: 'string' },
  account: {
    type: 'array',
    items: object(texts('account_number', 'account_name', 'bank_name', 'bank_id', 'created_at')),
  },
  meta: object(texts('firstName', 'lastName', 'email')),
})

const timeText = (date: Date) => date.toISOString().slice(0, 19).replace('T', ' ')

async function lookUp(pool: pg.Pool, body: Record<string, string>) {
  const { rows } = await pool.query({
    name: 'look-up',
    text: `select t.session_id, t.amount_minor, t.status, t.bank, t.paid_at, exists (select from ledger_posting p
          where p.transaction_id = t.id and p.kind = 'settlement') as settled,
        a.reference, a.account_number, a.account_name, a.first_name, a.last_name, a.email
      from payment_session s join transaction t on t.id = s.transaction_id
        join account a on a.id = t.account_id
      where s.session_id = $1 and t.business_id = $2`,
    values: [body['session_id'], SEEDED_BUSINESS],
  })
  const row = rows[0]
  const data = {
    reference: row.reference,
    session_id: row.session_id,
    transaction_ref: row.session_id,
    amount: Number(row.amount_minor) / 100,
    status: row.status,
    is_settled: row.settled,
    method: 'bank_transfer',
    bank: row.bank,
    nuban: row.account_number,
    account_name: row.account_name,
    customer: `${row.first_name} ${row.last_name}`,
    email: row.email,
    created_at: timeText(row.paid_at),
  }
  return { status: true, message: 'Transaction retrieved', data }
}

let accounts = 0

async function insert(pool: pg.Pool, body: Record<string, string>) {
  const { firstName, lastName, email, phone, bank } = body
  const now = new Date()
  const reference = newReference()
  const name = `Business 1/${firstName} ${lastName}`
  accounts += 1
  // Account numbers above those that were seeded.
  const number = accountNumberOf(1_000_000_000 + accounts)
  await pool.query({
    name: 'insert',
    text: `insert into account (id, business_id, live, reference, merchant_reference, bank,
        account_number, account_name, status, first_name, last_name, email, phone, details_hash,
        attempts, claimed_until, created_at)
      values ($1, $2, true, $3, $4, $5, $6, $7, 'ACTIVE', $8, $9, $10, $11, $12, 1, $13, $13)`,
    values: [
      newId('acc', now.getTime()),
      SEEDED_BUSINESS,
      reference,
      body['reference'],
      bank,
      number,
      name,
      firstName,
      lastName,
      email,
      phone,
      HASH,
      now,
    ],
  })
  const account = {
    account_number: number,
    account_name: name,
    bank_name: '9 Payment Service Bank',
    bank_id: bank,
    created_at: timeText(now),
  }
  const data = { reference, account: [account], meta: { firstName, lastName, email } }
  return { status: true, message: 'Account reserved', data }
}

const HASH = Buffer.alloc(32, 1)

/** A grpc-js server whose GetTransaction decodes the request and encodes a constant. Ready: its address. */
export async function grpcServer(responseBytes: Uint8Array) {
  const { method, typeName } = TransactionService
  const { name, input, output } = method.getTransaction
  const serialize = (desc: DescMessage) => (message: unknown) =>
    Buffer.from(toBinary(desc, message as never))
  const deserialize = (desc: DescMessage) => (bytes: Buffer) => fromBinary(desc, bytes)
  const definition = {
    path: `/${typeName}/${name}`,
    requestStream: false,
    responseStream: false,
    requestSerialize: serialize(input),
    requestDeserialize: deserialize(input),
    responseSerialize: serialize(output),
    responseDeserialize: deserialize(output),
  }
  const server = new Server({ 'grpc.enable_channelz': 0 })
  const response = fromBinary(output, responseBytes)
  const respond = (_call: unknown, done: sendUnaryData<unknown>) => done(null, response)
  server.addService({ [name]: definition }, { [name]: respond })
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) => {
      if (error) reject(error)
      else resolve(bound)
    })
  })
  return { ready: `127.0.0.1:${port}` }
}

/** connect-node's own gRPC server, streaming messages that it has in memory. Ready: its address. */
export async function connectStream(bytes: readonly Uint8Array[]) {
  const messages = bytes.map((each) => fromBinary(SubscribeResponseSchema, each))
  const adapter = connectNodeAdapter({
    routes: (router) => {
      router.service(EventService, {
        async *subscribe() {
          yield* messages
        },
      })
    },
  })
  return { ready: `127.0.0.1:${await listen(createServer(adapter))}` }
}
