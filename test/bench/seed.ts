import pg from 'pg'
import { newSecretKey } from '../../src/businesses/secret-key.ts'
import { newId } from '../../src/core/ids.ts'
import type { Bench } from './bench.ts'

/** How many accounts benchmarks pay into and look up. */
export const ACCOUNTS = 10_000

/** The accounts are spread over these. */
const BUSINESSES = 20

/** The first business of `seedAccounts`. */
export const SEEDED_BUSINESS = `biz_01${'1'.padStart(24, '0')}`

/** The number of an account, from 1 on. */
export function accountNumberOf(account: number): string {
  return String(account).padStart(10, '0')
}

/** Of the accounts of `seedAccounts`. */
export const ACCOUNT_NUMBERS = Array.from({ length: ACCOUNTS }, (_, at) => accountNumberOf(at + 1))

/** The session of a seeded transaction, from 1 on: thirty digits, as banks make them. */
export function sessionIdOf(transaction: number): string {
  return `999999261120100000${String(transaction).padStart(12, '0')}`
}

/** Adds businesses and their open accounts. */
export async function seedAccounts(databaseUrl: string): Promise<void> {
  await run(databaseUrl, [
    `insert into business (id, name, alias, created_at)
      select ${idOf('biz', 'b')}, 'Business ' || b, 'Business ' || b, now()
      from generate_series(1, ${BUSINESSES}) b`,
    `insert into account (id, business_id, live, reference, merchant_reference, bank, account_number,
        account_name, status, first_name, last_name, email, phone, details_hash, attempts,
        claimed_until, created_at)
      select ${idOf('acc', 'a')}, ${idOf('biz', `1 + a % ${BUSINESSES}`)},
        true, 'R-' || lpad(a::text, 20, 'A'), 'order-' || a, '9PSB', lpad(a::text, 10, '0'),
        'Business ' || (1 + a % ${BUSINESSES}) || '/Ada Obi', 'ACTIVE', 'Ada', 'Obi',
        'ada.obi' || a || '@example.com', '08012345678', sha256(a::text::bytea), 1, now(), now()
      from generate_series(1, ${ACCOUNTS}) a`,
    'analyze business, account',
  ])
}

/** Adds transactions of one business, over accounts that `seedAccounts` made. */
export async function seedTransactions(
  databaseUrl: string,
  businessId: string,
  count: number,
): Promise<void> {
  await run(databaseUrl, [
    `update account set business_id = '${businessId}'`,
    `insert into payment_session (session_id, bank, live, transaction_id)
      select '999999261120100000' || lpad(t::text, 12, '0'), '9PSB', true, ${idOf('txn', 't')}
      from generate_series(1, ${count}) t`,
    `insert into transaction (id, business_id, live, account_id, bank, session_id, amount_minor, status,
        paid_at, created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name,
        narration, recorded_by)
      select ${idOf('txn', 't')}, '${businessId}', true, ${idOf('acc', `1 + t % ${ACCOUNTS}`)}, '9PSB',
        '999999261120100000' || lpad(t::text, 12, '0'), 100 + t, 'SUCCESS',
        now() - t * interval '1 second', now(), 'Chinedu Okafor', '0123456789', '000013',
        'GTBank Plc', 'Transfer for order ' || t, 'notification'
      from generate_series(1, ${count}) t`,
    'vacuum analyze account, payment_session, transaction',
  ])
}

/** Adds a key of a business. @returns the secret */
export async function seedKey(
  databaseUrl: string,
  businessId: string,
  scopes: readonly string[] = [],
): Promise<string> {
  const id = newId('key', Date.now())
  const { secret, prefix, secretHash } = newSecretKey(id, true)
  await run(databaseUrl, [
    `insert into api_key (id, business_id, live, prefix, secret_hash, created_at, allowed_cidrs, scopes)
      values ('${id}', '${businessId}', true, '${prefix}', '\\x${secretHash.toString('hex')}', now(),
        '{${scopes.includes('payouts') ? '127.0.0.0/8' : ''}}', '{${scopes.join(',')}}')`,
  ])
  return secret
}

/** The id of a seeded row, in SQL. */
export function idOf(prefix: string, number: string): string {
  return `'${prefix}_01' || lpad((${number})::text, 24, '0')`
}

async function run(databaseUrl: string, statements: readonly string[]): Promise<void> {
  await withClient(databaseUrl, async (client) => {
    for (const statement of statements) await client.query(statement)
  })
}

export async function withClient(
  connectionString: string,
  use: (client: pg.Client) => Promise<void>,
): Promise<void> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    await use(client)
  } finally {
    await client.end()
  }
}

/** A connection until the benchmark ends. */
export async function openDatabase(bench: Bench, connectionString: string): Promise<pg.Client> {
  const database = new pg.Client({ connectionString })
  await database.connect()
  bench.onEnd(() => database.end())
  return database
}
