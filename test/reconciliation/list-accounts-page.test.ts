import { expect, test } from 'vitest'
import { listAccountsPage } from '../../src/reconciliation/list-accounts-page.ts'
import { insertBusiness } from '../settlement/fixture.ts'
import { useDatabase } from '../support/database.ts'
import { rowsRead } from '../support/rows-read.ts'

const db = useDatabase(2)

test('listing the accounts of a bank reads none of another bank and none of test mode', async () => {
  const { pool } = db.database
  await insertBusiness(pool)
  const { rows: known } = await pool.query('select id from account')
  /** Copies the only account, which is at 9PSB. */
  const copy = (bank: string, live: boolean, count: number) =>
    pool.query(
      `insert into account select (jsonb_populate_record(a, jsonb_build_object(
          'id', 'acc_' || $1 || $2::text || n, 'reference', 'R-' || $1 || $2::text || n,
          'merchant_reference', $1 || $2::text || n, 'bank', $1, 'live', $2::boolean,
          'account_number', (5000000000 + n)::text))).*
        from account a, generate_series(1, $3) n where id = $4`,
      [bank, live, count, known[0].id],
    )
  await copy('9PSB', true, 1_000)
  await copy('SAFEHAVEN', false, 1_000)
  await copy('SAFEHAVEN', true, 3)
  await pool.query('analyze account')
  const request = { bank: 'SAFEHAVEN', afterId: '', paidSinceMs: undefined, limit: 32 } as const
  let numbers: string[] = []
  const read = await rowsRead(pool, 'account', async (client) => {
    const { accounts, cursor } = await listAccountsPage(client, request)
    expect(cursor).toBeUndefined()
    numbers = accounts.map(({ accountNumber }) => accountNumber)
  })
  expect(numbers).toEqual(['5000000001', '5000000002', '5000000003'])
  expect(read).toBeLessThanOrEqual(6)
})
