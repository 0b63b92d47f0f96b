import { Code, type ConnectError } from '@connectrpc/connect'
import { beforeAll, describe, expect, test } from 'vitest'
import { BadRequestSchema } from '../../gen/google/rpc/error_details_pb.ts'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { MAGIC_PHONES } from '../../src/banks/sandbox.ts'
import { callerEnv, runHere } from '../cli/run-inflow.ts'
import { creation } from '../protocols/rest/rest.ts'
import { CUSTOMER } from '../support/opened-account.ts'
import { ADMIN_TOKEN, issueToken, useSharedService } from '../support/service.ts'
import { approveRecipient } from '../thirdparty/scene.ts'
import { newBusiness, type Shown } from '../transactions/variance/fixture.ts'

const service = useSharedService()
const accounts = (token?: string) => service.client(AccountService, token)

let seller: Awaited<ReturnType<typeof newBusiness>>
let agent: Awaited<ReturnType<typeof newBusiness>>

beforeAll(async () => {
  seller = await newBusiness(service)
  agent = await newBusiness(service)
})

/** A business that may divide its payments with the seller and the agent. */
async function newShop() {
  const shop = await newBusiness(service)
  for (const { businessId } of [seller, agent]) {
    await approveRecipient(service, shop.businessId, businessId)
  }
  return shop
}

const SPLIT = () => ({
  feeBearer: 'SHARED',
  recipients: [
    { businessId: seller.businessId, percentage: 12.5 },
    { businessId: agent.businessId, amount: '50' },
  ],
})

describe('opening an account with a split', () => {
  test('may be repeated with the same split only', async () => {
    const shop = await newShop()
    const { data } = await shop.open({ split: SPLIT() })
    const repeat = (split: unknown) => shop.call('generateVirtualAccount', creation({ split }))
    const [first, second] = SPLIT().recipients
    const same = [{ ...first, percentage: '12.50' }, second]
    expect((await repeat({ feeBearer: 'SHARED', recipients: same })).data).toEqual(data)
    for (const other of [
      undefined,
      { recipients: SPLIT().recipients },
      { ...SPLIT(), recipients: [second, first] },
      { ...SPLIT(), recipients: [first] },
      { ...SPLIT(), recipients: [{ ...first, percentage: '12.51' }, second] },
    ]) {
      expect(await repeat(other)).toMatchObject({ status: false, code: 'duplicate_reference' })
    }
    // A repeat shows what the account has now.
    await accounts().setAccountSplit({ businessId: shop.businessId, reference: 'order-1' })
    expect((await repeat(SPLIT())).data).not.toHaveProperty('split')
  })

  test('may be repeated after the approval of its recipient was revoked, which opens nothing new', async () => {
    const shop = await newBusiness(service)
    const { businessId } = shop
    await approveRecipient(service, businessId, seller.businessId)
    const scopes = ['payments:write', 'splits:write']
    const { secret } = await service.client(AdminService).issueToken({ name: 'x', scopes })
    const recipients = [{ businessId: seller.businessId, percentage: '5' }]
    const own = (reference: string) => creation({ reference, split: { recipients } })
    const internal = (reference: string) => ({
      ...CUSTOMER,
      businessId,
      bank: Bank.BANK_9PSB,
      reference,
      split: { recipients: [{ businessId: seller.businessId, basisPoints: 500 }] },
    })
    const { data } = await shop.call('generateVirtualAccount', own('order-1'))
    const { account } = await accounts(secret).createAccount(internal('order-2'))
    await accounts().revokeSplitRecipient({ businessId, recipientId: seller.businessId })

    expect((await shop.call('generateVirtualAccount', own('order-1'))).data).toEqual(data)
    const repeated = await accounts(secret).createAccount(internal('order-2'))
    expect(repeated).toMatchObject({ replayed: true, account: { reference: account?.reference } })
    expect(await shop.call('generateVirtualAccount', own('order-3'))).toMatchObject({
      code: 'validation_failed',
      errors: [
        { field: 'split.recipients[0].businessId', message: 'is not an approved recipient' },
      ],
    })
    await expect(accounts(secret).createAccount(internal('order-3'))).rejects.toMatchObject({
      code: Code.InvalidArgument,
    })
    expect((await accounts().listAccounts({ businessId })).accounts).toHaveLength(2)
  })

  test('refuses a split that is not valid, by its field, and opens nothing', async () => {
    const shop = await newShop()
    const [first, second] = SPLIT().recipients
    const to = (more: object) => ({ recipients: [{ businessId: seller.businessId, ...more }] })
    for (const [split, field] of [
      [5, 'split'],
      [{ recipients: 'x' }, 'split.recipients'],
      [{ feeBearer: 'PAYER' }, 'split.feeBearer'],
      [{ recipients: Array(6).fill(second) }, 'split.recipients'],
      [{ recipients: [{ percentage: 1 }] }, 'split.recipients[0].businessId'],
      [{ recipients: [{ ...first, businessId: 'biz_x' }] }, 'split.recipients[0].businessId'],
      [
        { recipients: [{ ...first, businessId: shop.businessId }] },
        'split.recipients[0].businessId',
      ],
      [{ recipients: [first, second, second] }, 'split.recipients[2].businessId'],
      [to({}), 'split.recipients[0]'],
      [to({ percentage: 1, amount: 1 }), 'split.recipients[0]'],
      [to({ percentage: 0 }), 'split.recipients[0].percentage'],
      [to({ percentage: '1.005' }), 'split.recipients[0].percentage'],
      [to({ amount: '-5' }), 'split.recipients[0].amount'],
      [
        { recipients: [first, { ...first, percentage: '87.51' }] },
        'split.recipients[1].percentage',
      ],
    ] as const) {
      const answer = await shop.call('generateVirtualAccount', creation({ split }))
      expect(answer).toMatchObject({ status: false, code: 'validation_failed' })
      expect(answer.errors.map((each: Shown) => each.field)).toContain(field)
    }
    const { accounts: opened } = await accounts().listAccounts({ businessId: shop.businessId })
    expect(opened).toEqual([])
  })

  test('leaves nothing of a split if the bank rejects the customer', async () => {
    const shop = await newShop()
    const rejected = creation({ split: SPLIT(), phone: MAGIC_PHONES.rejects })
    const answer = await shop.call('generateVirtualAccount', rejected)
    expect(answer).toMatchObject({ status: false, code: 'validation_failed' })
    const { data } = await shop.open({ split: SPLIT() })
    expect(data.split.recipients).toHaveLength(2)
  })
})

describe('over gRPC', () => {
  const request = (businessId: string, split: unknown) => ({
    businessId,
    reference: 'order-1',
    bank: Bank.BANK_9PSB,
    ...CUSTOMER,
    split: split as never,
  })

  const toSeller = () => ({ recipients: [{ businessId: seller.businessId, basisPoints: 10_000 }] })

  test('a token of payments:write divides no payments', async () => {
    const shop = await newShop()
    const scopes = ['payments:write', 'payments:reverse', 'read', 'events:subscribe']
    const { secret: token } = await issueToken(service, scopes)
    const refused = { code: Code.PermissionDenied }
    const opening = accounts(token).createAccount(request(shop.businessId, toSeller()))
    await expect(opening).rejects.toMatchObject(refused)
    await accounts(token).createAccount(request(shop.businessId, { recipients: [] }))
    const { businessId } = shop
    const change = { businessId, reference: 'order-1', split: toSeller() }
    await expect(accounts(token).setAccountSplit(change)).rejects.toMatchObject(refused)
    expect((await shop.account()).split).toBeUndefined()
  })

  test('a token of splits:write divides them with recipients that an operator has approved', async () => {
    const shop = await newBusiness(service)
    const { businessId } = shop
    const key = { businessId, recipientId: seller.businessId }
    const { secret: token } = await issueToken(service, ['payments:write', 'splits:write'])
    await accounts(token).createAccount(request(businessId, undefined))
    const set = (token: string, recipients: object[]) => {
      const change = { businessId, reference: 'order-1', split: { recipients } }
      return accounts(token).setAccountSplit(change as never)
    }
    const shares = toSeller().recipients
    const violation = 'split.recipients[0].businessId is not an approved recipient'
    await expect(set(token, shares)).rejects.toSatisfy(violates(violation))
    await expect(accounts(token).approveSplitRecipient(key)).rejects.toMatchObject({
      code: Code.PermissionDenied,
    })
    // An operator needs no approval, and gives none by that.
    await set(ADMIN_TOKEN, shares)
    await expect(set(token, shares)).rejects.toSatisfy(violates(violation))
    await set(token, [])
    await accounts().approveSplitRecipient(key)
    const { account } = await set(token, shares)
    expect(account?.split).toMatchObject(toSeller())
    // Of that business only.
    const other = await newBusiness(service)
    const opening = accounts(token).createAccount(request(other.businessId, toSeller()))
    await expect(opening).rejects.toSatisfy(violates(violation))
    await accounts().revokeSplitRecipient(key)
    expect((await shop.account()).split).toMatchObject(toSeller())
    await expect(set(token, [{ ...shares[0], basisPoints: 1 }])).rejects.toSatisfy(
      violates(violation),
    )
  })

  test('an operator of some businesses divides their payments among them', async () => {
    const shop = await newBusiness(service)
    const businessIds = [shop.businessId, agent.businessId]
    const { secret } = await issueToken(service, ['admin'], businessIds)
    const to = (businessId: string) =>
      request(shop.businessId, { recipients: [{ businessId, basisPoints: 1 }] })
    for (const businessId of [seller.businessId, 'biz_nobody']) {
      await expect(accounts(secret).createAccount(to(businessId))).rejects.toSatisfy(
        violates('split.recipients[0].businessId is not an approved recipient'),
      )
    }
    const { account } = await accounts(secret).createAccount(to(agent.businessId))
    expect(account?.split?.recipients).toHaveLength(1)
  })
})

const violationsOf = (error: ConnectError) =>
  error
    .findDetails(BadRequestSchema)
    .flatMap(({ fieldViolations }) => fieldViolations)
    .map(({ field, description }) => `${field} ${description}`)

const violates = (violation: string) => (error: unknown) =>
  violationsOf(error as ConnectError).includes(violation)

describe('from the command line', () => {
  const inflow = (...args: string[]) => runHere(args, callerEnv(service))

  test('operators change the split of an account', async () => {
    const shop = await newBusiness(service)
    await shop.open({})
    const split = (...args: string[]) =>
      inflow('account', 'split', 'order-1', '--business', shop.businessId, ...args)
    const shares = [`${seller.businessId}=12.5%`, `${agent.businessId}=50`]
    const { stdout } = await split('--share', ...shares, '--fee-bearer', 'SHARED')
    expect(stdout).toContain(`${seller.businessId} 12.50 %, ${agent.businessId} 50.00; fee: SHARED`)
    expect((await shop.account()).split?.recipients).toHaveLength(2)
    expect((await split()).stderr).toContain('pass either --share or --none')
    expect((await split('--none')).code).toBe(0)
    expect((await shop.account()).split).toBeUndefined()
  })

  test('operators approve recipients, list them and revoke the approval', async () => {
    const shop = await newBusiness(service)
    const recipient = (verb: string, ...args: string[]) =>
      inflow('recipient', verb, '--business', shop.businessId, ...args)
    const approved = await recipient('approve', seller.businessId)
    expect(approved.stdout).toContain(seller.businessId)
    // A repeat is the same approval.
    expect((await recipient('approve', seller.businessId)).stdout).toBe(approved.stdout)
    expect((await recipient('list')).stdout).toContain(seller.businessId)
    expect((await recipient('approve', shop.businessId)).stderr).toContain('another business')
    await recipient('revoke', seller.businessId)
    expect((await recipient('list')).stdout).not.toContain(seller.businessId)
    const { entries } = await service
      .client(AdminService)
      .listAuditEntries({ businessId: shop.businessId, pageSize: 2 })
    expect(entries.map(({ action, targetId }) => [action, targetId])).toEqual([
      ['split_recipient.revoke', seller.businessId],
      ['split_recipient.approve', seller.businessId],
    ])
  })
})
