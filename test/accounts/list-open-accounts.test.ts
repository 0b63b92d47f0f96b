import type { EntityManager } from '@mikro-orm/postgresql'
import { expect, test } from 'vitest'
import { listOpenAccounts } from '../../src/accounts/list-accounts.ts'
import { insertBusiness } from '../settlement/fixture.ts'
import { useDatabase } from '../support/database.ts'

const db = useDatabase(2)

test('listing the accounts of a bank reads none of another bank, of test mode or of the sandbox', async () => {
  const { durablePool, orm } = db.database
  await insertBusiness(durablePool)
  const { rows: known } = await durablePool.query('select id from account')
  /** Copies the only account, which is at 9PSB. */
  const copy = (bank: string, live: boolean, connector: string, from: number, count: number) =>
    durablePool.query(
      `insert into account select (jsonb_populate_record(a, jsonb_build_object(
          'id', 'acc_' || $1 || $2::text || n, 'reference', 'R-' || $1 || $2::text || n,
          'merchant_reference', $1 || $2::text || n, 'bank', $1, 'live', $2::boolean,
          'connector', $3::text, 'account_number', (5000000000 + n)::text))).*
        from account a, generate_series($4::int, $5::int) n where id = $6`,
      [bank, live, connector, from, from + count - 1, known[0].id],
    )
  await copy('9PSB', true, 'live', 1, 1_000)
  await copy('SAFEHAVEN', false, 'sandbox', 1, 1_000)
  await copy('SAFEHAVEN', true, 'live', 1, 3)
  await copy('SAFEHAVEN', true, 'sandbox', 4, 1_000)
  await durablePool.query('analyze account')
  await orm.em.fork().transactional(async (em) => {
    const before = await rowsRead(em)
    const accounts = await listOpenAccounts(em, 'SAFEHAVEN', '', 32)
    expect(accounts.map(({ accountNumber }) => accountNumber)).toEqual([
      '5000000001',
      '5000000002',
      '5000000003',
    ])
    expect((await rowsRead(em)) - before).toBeLessThanOrEqual(6)
  })
})

/** How many accounts this transaction has read, by any kind of scan. */
async function rowsRead(em: EntityManager): Promise<number> {
  const [row] = await em.execute(
    `select (seq_tup_read + idx_tup_fetch)::int as read from pg_stat_xact_user_tables
      where relname = 'account'`,
  )
  return row?.read
}
