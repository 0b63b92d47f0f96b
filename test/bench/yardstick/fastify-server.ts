import Fastify from 'fastify'
import pg from 'pg'
import { newId, newReference } from '../../../src/core/ids.ts'
import { childProcessMain } from '../child-process-main.ts'
import { accountNumberOf, SEEDED_BUSINESS } from '../seed.ts'

/**
 * A route as a good engineer would write it for this work alone: a kept plan, a pool, a schema that serialises the
 * response; no authentication, no validation, no log, no metrics.
 */
export type FastifyServerOptions =
  | { readonly route: 'constant'; readonly response: string }
  | { readonly route: 'look-up' | 'insert'; readonly databaseUrl: string }

/** The port it listens at. */
export interface FastifyServerReady {
  readonly port: number
}

const CONNECTIONS = 16

/** With its schema, Fastify compiles what writes the response. */
const responseOf = (data: object) => ({
  type: 'object',
  properties: { status: { type: 'boolean' }, message: { type: 'string' }, data },
})

const texts = (...names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, { type: 'string' }]))

const TRANSACTION = {
  type: 'object',
  properties: {
    ...texts('reference', 'session_id', 'transaction_ref'),
    amount: { type: 'number' },
    status: { type: 'string' },
    is_settled: { type: 'boolean' },
    ...texts('method', 'bank', 'nuban', 'account_name', 'customer', 'email', 'created_at'),
  },
}

const ACCOUNT = {
  type: 'object',
  properties: {
    reference: { type: 'string' },
    account: {
      type: 'array',
      items: {
        type: 'object',
        properties: texts('account_number', 'account_name', 'bank_name', 'bank_id', 'created_at'),
      },
    },
    meta: { type: 'object', properties: texts('firstName', 'lastName', 'email') },
  },
}

childProcessMain<FastifyServerOptions, FastifyServerReady, never, never>(async (options) => {
  const app = Fastify()
  if (options.route === 'constant') {
    const { response } = options
    app.post('/', (_request, reply) => {
      reply.header('content-type', 'application/json; charset=utf-8').send(response)
    })
  } else {
    const pool = new pg.Pool({
      connectionString: options.databaseUrl,
      max: CONNECTIONS,
      // Otherwise the look-up would be planned anew each time, over all partitions.
      options: '-c plan_cache_mode=force_generic_plan',
    })
    const [serve, data] = options.route === 'insert' ? [insert, ACCOUNT] : [lookUp, TRANSACTION]
    const schema = { response: { 200: responseOf(data) } }
    app.post('/', { schema }, (request) => serve(pool, request.body as Record<string, string>))
  }
  await app.listen({ host: '127.0.0.1', port: 0 })
  return { ready: { port: (app.server.address() as { port: number }).port } }
})

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
  return {
    status: true,
    message: 'Transaction retrieved',
    data: {
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
      created_at: row.paid_at.toISOString().slice(0, 19).replace('T', ' '),
    },
  }
}

let accounts = 0

async function insert(pool: pg.Pool, body: Record<string, string>) {
  const now = new Date()
  const reference = newReference()
  const name = `Business 1/${body['firstName']} ${body['lastName']}`
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
      body['bank'],
      number,
      name,
      body['firstName'],
      body['lastName'],
      body['email'],
      body['phone'],
      HASH,
      now,
    ],
  })
  return {
    status: true,
    message: 'Account reserved',
    data: {
      reference,
      account: [
        {
          account_number: number,
          account_name: name,
          bank_name: '9 Payment Service Bank',
          bank_id: body['bank'],
          created_at: now.toISOString().slice(0, 19).replace('T', ' '),
        },
      ],
      meta: {
        firstName: body['firstName'],
        lastName: body['lastName'],
        email: body['email'],
      },
    },
  }
}

const HASH = Buffer.alloc(32, 1)
