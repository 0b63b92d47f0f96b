import { create } from '@bufbuild/protobuf'
import { createContextValues, type HandlerContext } from '@connectrpc/connect'
import { expect, test } from 'vitest'
import { IdType } from '../../gen/inflow/account/v1/account_pb.ts'
import {
  AccountService,
  ListAccountsRequestSchema,
} from '../../gen/inflow/account/v1/account_service_pb.ts'
import { createAccountRpc } from '../../src/accounts/rpc.ts'
import { callerKey, type Scope } from '../../src/auth/caller.ts'
import { readConfig } from '../../src/config/config.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { startInflow } from '../cli/run-inflow.ts'
import { creation } from '../protocols/rest/rest.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { ADMIN_TOKEN, MASTER_KEY, useSharedService } from '../support/service.ts'

const service = useSharedService()

/** Opens accounts with identity numbers, each in its own business. @returns their references */
async function open(...customers: { bank?: string; idType?: string; idNumber: string }[]) {
  const references: string[] = []
  for (const customer of customers) {
    const { key } = await service.business()
    const body = creation({ bank: 'PALMPAY', idType: 'nin', ...customer })
    const response = await service.post('generateVirtualAccount/', key, body)
    expect(response.status).toBe(200)
    references.push(response.body.data.reference)
  }
  return references
}

async function find(request: { idNumber: string; idType?: IdType; pageSize?: number }) {
  const { accounts } = await service.client(AccountService).listAccounts(request)
  return accounts.map((account) => account.reference).sort()
}

test('finds the accounts with one identity number across businesses', async () => {
  const [one, two, bvn, withoutKind] = await open(
    { idNumber: '10000000001' },
    { idNumber: '10000000001' },
    { idNumber: '10000000001', idType: 'bvn' },
    { idNumber: '10000000001', bank: '9PSB', idType: undefined as never },
    { idNumber: '10000000002' },
  )
  const all = [one, two, bvn, withoutKind].sort()
  expect(await find({ idNumber: '10000000001' })).toEqual(all)
  expect(await find({ idNumber: '10000000001', idType: IdType.NIN })).toEqual([one, two].sort())
  expect(await find({ idNumber: '10000000001', idType: IdType.BVN })).toEqual([bvn])
  expect(await find({ idNumber: '10000000003' })).toEqual([])
  await expect(find({ idNumber: '1000000000' })).rejects.toThrow('idNumber')

  const accounts = service.client(AccountService)
  const first = await accounts.listAccounts({ idNumber: '10000000001', pageSize: 3 })
  const rest = await accounts.listAccounts({
    idNumber: '10000000001',
    pageSize: 3,
    pageToken: first.nextPageToken,
  })
  const paged = [...first.accounts, ...rest.accounts].map((account) => account.reference)
  expect(paged.sort()).toEqual(all)
  expect(Object.keys(first.accounts[0]!).join()).not.toMatch(/idNumber/i)
})

test('only a token with scope admin may search by identity number', async () => {
  const encrypter = createEncrypter(MASTER_KEY)
  const rpc = createAccountRpc(createTestRuntime(service.database), {
    encrypter,
    bankNames: readConfig({}).bankNames,
  } as never)
  const asCaller = (scopes: readonly Scope[], idNumber: string) => {
    const caller = { kind: 'internal', tokenId: 't', name: 't', scopes: new Set(scopes) } as const
    const values = createContextValues().set(callerKey, caller)
    const request = create(ListAccountsRequestSchema, { pageSize: 1, idNumber })
    return rpc.listAccounts(request, { values } as HandlerContext)
  }
  const denied = { reason: 'permission_denied' }
  await expect(asCaller(['read'], '10000000001')).rejects.toMatchObject(denied)
  await expect(asCaller(['read', 'payments:write'], '1')).rejects.toMatchObject(denied)
  await expect(asCaller(['read'], '')).resolves.toBeDefined()
  await expect(asCaller(['admin'], '10000000001')).resolves.toBeDefined()
})

test('the command reads the number from standard input, which other users cannot see', async () => {
  const [reference] = await open({ idNumber: '10000000005' })
  const env = { INFLOW_GRPC_URL: service.grpcUrl, INFLOW_TOKEN: ADMIN_TOKEN }
  const running = startInflow(['account', 'list', '--id-number', '-'], {
    env,
    input: '10000000005\n',
  })
  await running.nextLine()
  expect(await running.nextLine()).toContain(reference)
  expect(await running.exit()).toBe(0)
  const empty = startInflow(['account', 'list', '--id-number', '-'], { env })
  expect(await empty.exit()).toBe(2)
  expect(empty.stderr()).toBe('error: Identity number: standard input has no valid line\n')
})
