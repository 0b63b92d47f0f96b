import { expect, test } from 'vitest'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { creation } from '../protocols/rest/rest.ts'
import { MASTER_KEY, useSharedService } from '../support/service.ts'

const service = useSharedService()

const ID_NUMBER = '22334455667'

test('an identity number is encrypted, bound to its account, and in no table as plain text', async () => {
  const { id, key } = await service.business()
  const palmpay = { bank: 'PALMPAY', idType: 'bvn', idNumber: ID_NUMBER }
  for (const reference of ['order-1', 'order-2']) {
    const body = creation({ ...palmpay, reference })
    const { status, text } = await service.post('generateVirtualAccount/', key, body)
    expect(status).toBe(200)
    expect(text).not.toContain(ID_NUMBER)
  }
  const { durablePool } = service.database
  const { rows } = await durablePool.query(
    'select id, id_type, id_number_encrypted from account where business_id = $1 order by id',
    [id],
  )
  const [one, two] = rows
  expect(one.id_type).toBe('bvn')
  const encrypter = createEncrypter(MASTER_KEY)
  expect(encrypter.decrypt(one.id_number_encrypted, `id_number ${one.id}`)).toBe(ID_NUMBER)
  expect(() => encrypter.decrypt(one.id_number_encrypted, `id_number ${two.id}`)).toThrow()
  expect(one.id_number_encrypted.equals(two.id_number_encrypted)).toBe(false)

  const { rows: tables } = await durablePool.query(
    `select quote_ident(table_name) as name from information_schema.tables
      where table_schema = 'public' and table_type = 'BASE TABLE'`,
  )
  expect(tables.length).toBeGreaterThan(10)
  const hex = Buffer.from(ID_NUMBER).toString('hex')
  for (const { name } of tables) {
    const found = await durablePool.query(
      `select count(*)::int as count from ${name} r where r::text like $1 or r::text like $2`,
      [`%${ID_NUMBER}%`, `%${hex}%`],
    )
    expect([name, found.rows[0].count]).toEqual([name, 0])
  }
})
