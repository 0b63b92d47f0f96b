import { Code } from '@connectrpc/connect'
import { expect, test } from 'vitest'
import { IdType } from '../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { useSharedService } from '../support/service.ts'
import { openByKey } from '../thirdparty/scene.ts'

const service = useSharedService()

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
