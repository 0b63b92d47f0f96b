import { Code } from '@connectrpc/connect'
import { expect, test } from 'vitest'
import { IdType } from '../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { creation } from '../protocols/rest/rest.ts'
import { MASTER_KEY, useSharedService } from '../support/service.ts'
import { openByKey } from '../thirdparty/scene.ts'

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

/** Opens accounts with identity numbers, each in its own business. @returns their references */
async function open(...customers: { bank?: string; idType?: string; idNumber: string }[]) {
  const references: string[] = []
  for (const customer of customers) {
    const { key } = await service.business()
    const identified = { bank: 'PALMPAY', idType: 'nin', ...customer }
    references.push((await openByKey(service, key, identified)).reference)
  }
  return references
}

async function find(request: { idNumber: string; idType?: IdType }) {
  const found: string[] = []
  for (let pageToken = ''; ; ) {
    const page = await service
      .client(AccountService)
      .listAccounts({ ...request, pageSize: 3, pageToken })
    found.push(...page.accounts.map(({ reference }) => reference))
    expect(JSON.stringify(page.accounts.map(Object.keys))).not.toMatch(/idNumber/i)
    pageToken = page.nextPageToken
    if (pageToken === '') return found.sort()
  }
}

test('finds the accounts with one identity number across businesses', async () => {
  const idNumber = '10000000101'
  const [one, two, bvn, withoutKind] = await open(
    { idNumber },
    { idNumber },
    { idNumber, idType: 'bvn' },
    { idNumber, bank: '9PSB', idType: undefined as never },
    { idNumber: '10000000102' },
  )
  expect(await find({ idNumber })).toEqual([one, two, bvn, withoutKind].sort())
  expect(await find({ idNumber, idType: IdType.NIN })).toEqual([one, two].sort())
  expect(await find({ idNumber, idType: IdType.BVN })).toEqual([bvn])
  expect(await find({ idNumber: '10000000103' })).toEqual([])
})

test('only a token with scope admin may search by identity number', async () => {
  const scopes = ['read', 'payments:write']
  const { secret } = await service.client(AdminService).issueToken({ name: 'x', scopes })
  const accounts = service.client(AccountService, secret)
  const idNumber = '10000000101'
  await expect(accounts.listAccounts({ pageSize: 1, idNumber })).rejects.toMatchObject({
    code: Code.PermissionDenied,
  })
  await accounts.listAccounts({ pageSize: 1 })
})
