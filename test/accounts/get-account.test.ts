import { expect, test } from 'vitest'
import { getAccount } from '../../src/accounts/get-account.ts'
import { insertBusiness } from '../settlement/fixture.ts'
import { useDatabase } from '../support/database.ts'

const db = useDatabase(2)

test('an account is found by either reference, and only by its own business and mode', async () => {
  const { pool } = db.database
  const [own, other] = [await insertBusiness(pool), await insertBusiness(pool)]
  const { rows } = await pool.query('select reference from account where business_id = $1', [
    own.id,
  ])
  const [{ reference }] = rows
  const find = (businessId: string, given: string, live: boolean | undefined = undefined) =>
    getAccount(pool, { businessId, live, reference: given })
  for (const live of [undefined, true]) {
    expect(await find(own.id, reference, live)).toMatchObject({ businessId: own.id, reference })
  }
  // Both businesses have an account with this reference of their own.
  for (const { id } of [own, other]) {
    expect(await find(id, 'order-1')).toMatchObject({ businessId: id })
  }
  const unknown = { reason: 'not_found' }
  await expect(find(other.id, reference)).rejects.toMatchObject(unknown)
  await expect(find(own.id, reference, false)).rejects.toMatchObject(unknown)
  await expect(find(own.id, 'order-1', false)).rejects.toMatchObject(unknown)
})
