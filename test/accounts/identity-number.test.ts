import { Code } from '@connectrpc/connect'
import { expect, test } from 'vitest'
import { IdType } from '../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { creation } from '../protocols/rest/rest.ts'
import { pages } from '../support/pages.ts'
import { issueToken, MASTER_KEY, useSharedService } from '../support/service.ts'
import { openByKey } from '../thirdparty/scene.ts'

const service = useSharedService()

const ID_NUMBER = '22334455667'

test('an identity number is encrypted, and bound to its account', async () => {
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
  const accounts = service.client(AccountService)
  const found = await pages(async (pageToken) => {
    const page = await accounts.listAccounts({ ...request, pageSize: 3, pageToken })
    return { items: page.accounts, next: page.nextPageToken }
  })
  expect(JSON.stringify(found.map(Object.keys))).not.toMatch(/idNumber/i)
  return found.map(({ reference }) => reference).sort()
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
  const { secret } = await issueToken(service, scopes)
  const accounts = service.client(AccountService, secret)
  const idNumber = '10000000101'
  await expect(accounts.listAccounts({ pageSize: 1, idNumber })).rejects.toMatchObject({
    code: Code.PermissionDenied,
  })
  await accounts.listAccounts({ pageSize: 1 })
})
