import { Code, type ConnectError } from '@connectrpc/connect'
import { beforeAll, describe, expect, test } from 'vitest'
import { BadRequestSchema } from '../../gen/google/rpc/error_details_pb.ts'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { FeeBearer } from '../../gen/inflow/account/v1/split_pb.ts'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { MAGIC_PHONES } from '../../src/banks/sandbox.ts'
import { runHere } from '../cli/run-inflow.ts'
import { CUSTOMER } from '../protocols/matrix/scene.ts'
import { creation } from '../protocols/rest/rest.ts'
import { ADMIN_TOKEN, useSharedService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { approveRecipient } from '../thirdparty/scene.ts'
import {
  discrepanciesOf,
  heldPaymentsOf,
  newBusiness,
  type Shown,
} from '../transactions/variance/fixture.ts'

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
  test('returns the split, here and wherever the account is shown', async () => {
    const shop = await newShop()
    const { data } = await shop.open({ split: SPLIT() })
    expect(data.split).toEqual({
      recipients: [
        { businessId: seller.businessId, percentage: '12.50', amount: '' },
        { businessId: agent.businessId, percentage: '', amount: '50.00' },
      ],
      feeBearer: 'SHARED',
    })
    expect((await shop.call('getVirtualAccount', { reference: 'order-1' })).data).toMatchObject(
      data,
    )
    const { split } = await shop.account()
    expect(split).toMatchObject({
      recipients: [
        { businessId: seller.businessId, basisPoints: 1_250, amountMinor: 0n },
        { businessId: agent.businessId, basisPoints: 0, amountMinor: 5_000n },
      ],
      feeBearer: FeeBearer.SHARED,
    })
    const { accounts: listed } = await accounts().listAccounts({ businessId: shop.businessId })
    expect(listed.map((each) => each.split)).toEqual([split])
  })

  test('changes nothing for an account without one', async () => {
    const shop = await newShop()
    const { data } = await shop.open({ split: { recipients: [] } })
    expect(data).not.toHaveProperty('split')
    expect((await shop.account()).split).toBeUndefined()
    const again = await shop.call('generateVirtualAccount', creation())
    expect(again.data).toEqual(data)
  })

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

  const one = (recipient: Record<string, unknown>) => () => ({ recipients: [recipient] })
  const to = (more: Record<string, unknown>) => () => ({
    recipients: [{ businessId: seller.businessId, ...more }],
  })
  test.each<[string, () => unknown, string]>([
    ['no object', () => 5, 'split'],
    ['a list of none', () => ({ recipients: 'x' }), 'split.recipients'],
    ['an unknown bearer', () => ({ feeBearer: 'PAYER' }), 'split.feeBearer'],
    ['no business', one({ percentage: 1 }), 'split.recipients[0].businessId'],
    [
      'a mistyped business',
      one({ businessId: 5, percentage: 1 }),
      'split.recipients[0].businessId',
    ],
    [
      'a text that is no id',
      one({ businessId: 'a\u0000', percentage: 1 }),
      'split.recipients[0].businessId',
    ],
    [
      'an unknown business',
      one({ businessId: 'biz_x', percentage: 1 }),
      'split.recipients[0].businessId',
    ],
    ['no share', to({}), 'split.recipients[0]'],
    ['both shares', to({ percentage: 1, amount: 1 }), 'split.recipients[0]'],
    ['a percentage of 0', to({ percentage: 0 }), 'split.recipients[0].percentage'],
    ['a percentage over 100', to({ percentage: '100.01' }), 'split.recipients[0].percentage'],
    ['three decimals', to({ percentage: '1.005' }), 'split.recipients[0].percentage'],
    ['a negative amount', to({ amount: '-5' }), 'split.recipients[0].amount'],
    ['a boolean', to({ amount: true }), 'split.recipients[0].amount'],
    [
      'a business twice',
      () => ({ recipients: [...SPLIT().recipients, ...SPLIT().recipients.slice(1)] }),
      'split.recipients[2].businessId',
    ],
    [
      'more than 100 percent',
      () => ({
        recipients: [
          { businessId: seller.businessId, percentage: '60' },
          { businessId: agent.businessId, percentage: '40.01' },
        ],
      }),
      'split.recipients[1].percentage',
    ],
    [
      'six recipients',
      () => ({ recipients: Array(6).fill({ businessId: 'biz_x', amount: 1 }) }),
      'split.recipients',
    ],
  ])('refuses %s, and opens nothing', async (_what, split, field) => {
    const shop = await newShop()
    const answer = await shop.call('generateVirtualAccount', creation({ split: split() }))
    expect(answer).toMatchObject({ status: false, code: 'validation_failed' })
    expect(answer.errors.map((each: Shown) => each.field)).toContain(field)
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

  test('refuses the owner as a recipient', async () => {
    const shop = await newShop()
    const recipients = [{ businessId: shop.businessId, percentage: 1 }]
    const answer = await shop.call('generateVirtualAccount', creation({ split: { recipients } }))
    expect(answer.errors).toEqual([
      { field: 'split.recipients[0].businessId', message: 'must not be the owner of the account' },
    ])
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

  test('errors name the fields of the contract', async () => {
    const shop = await newShop()
    const recipients = [{ businessId: seller.businessId }, { businessId: 'biz_x', basisPoints: 1 }]
    const refused = (split: unknown) =>
      expect(accounts().createAccount(request(shop.businessId, split))).rejects
    await refused({ recipients }).toMatchObject({
      rawMessage: 'Invalid request: split.recipients[0]',
    })
    await refused({ recipients: recipients.slice(1) }).toMatchObject({
      rawMessage: 'Invalid request: split.recipients[0].businessId',
    })
    await refused({ recipients: [{ businessId: 'biz_x', basisPoints: 10_001 }] }).toMatchObject({
      rawMessage: 'Invalid request: split.recipients[0].basisPoints',
    })
  })

  const tokenOf = async (...scopes: string[]) =>
    (await service.client(AdminService).issueToken({ name: 'x', scopes })).secret
  const toSeller = () => ({ recipients: [{ businessId: seller.businessId, basisPoints: 10_000 }] })

  test('a token of payments:write divides no payments', async () => {
    const shop = await newShop()
    const token = await tokenOf('payments:write', 'payments:reverse', 'read', 'events:subscribe')
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
    const token = await tokenOf('payments:write', 'splits:write')
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

  test('without an approval, a business that exists answers like one that does not', async () => {
    const { businessId } = await newShop()
    const stranger = await newBusiness(service)
    const { secret } = await service.client(AdminService).issueToken({
      name: 'shop',
      scopes: ['payments:write', 'splits:write'],
      businessIds: [businessId, stranger.businessId],
    })
    const answers = []
    for (const each of [stranger.businessId, 'biz_nobody']) {
      const split = { recipients: [{ businessId: each, basisPoints: 1 }] }
      const error = await accounts(secret)
        .createAccount(request(businessId, split))
        .catch((refusal) => refusal)
      answers.push([error.rawMessage, violationsOf(error)])
    }
    const field = 'split.recipients[0].businessId'
    const answer = [`Invalid request: ${field}`, [`${field} is not an approved recipient`]]
    expect(answers).toEqual([answer, answer])
  })

  test('an operator of some businesses divides their payments among them', async () => {
    const shop = await newBusiness(service)
    const { secret } = await service.client(AdminService).issueToken({
      name: 'shop',
      scopes: ['admin'],
      businessIds: [shop.businessId, agent.businessId],
    })
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

test('a payment is settled, shown to all parties, and reversed with its shares', async () => {
  const shop = await newShop()
  const settlements = service.client(SettlementService)
  await settlements.updateSettlementTerms({
    businessId: shop.businessId,
    terms: { schedule: 3, workingDays: 30, feeBasisPoints: 150 },
  })
  const { pay } = await shop.open({ split: { ...SPLIT(), feeBearer: 'OWNER' } })
  const { transaction } = await pay(1_000)
  await waitFor(async () => {
    const preview = { businessId: shop.businessId, force: true }
    const { netMinor, splitsMinor } = await settlements.previewSettlement(preview)
    expect({ netMinor, splitsMinor }).toEqual({ netMinor: 81_000n, splitsMinor: 17_500n })
  })
  const { settlements: made } = await shop.settle()
  expect(made).toMatchObject([{ grossMinor: 100_000n, splitsMinor: 17_500n, netMinor: 81_000n }])
  expect(await shop.balance()).toMatchObject({ availableMinor: 81_000n, feesMinor: 1_500n })
  expect(await seller.balance()).toMatchObject({ pendingMinor: 0n, availableMinor: 12_500n })
  expect(await agent.balance()).toMatchObject({ pendingMinor: 0n, availableMinor: 5_000n })
  const [completed] = await shop.events(1, 'SETTLEMENT_COMPLETED')
  expect(completed.data.settlement).toMatchObject({ net_amount: '810.00', splits: '175.00' })
  const [settled] = await seller.events(1, 'SHARE_SETTLED')
  const share = { business_id: shop.businessId, business_name: 'Acme', transaction_count: 1 }
  expect(settled.data).toEqual({
    ...{ type: 'SHARE', amount: '125.00', status: 'SETTLED', live: true, epoch: 1, sequence: 1 },
    created_at: expect.any(String),
    event_id: expect.stringMatching(/^evt_/),
    share: { ...share, settlement_id: made[0]!.id, currency: 'NGN' },
  })
  await service
    .client(TransactionService)
    .reverseTransaction({ transactionId: transaction.id, reason: 'sent twice' })
  const [reversed] = await seller.events(1, 'SHARE_REVERSED')
  expect(reversed.data).toMatchObject({ amount: '125.00', status: 'REVERSED' })
  expect(reversed.data.share).toEqual({ ...share, transaction_id: transaction.id, currency: 'NGN' })
  expect(await seller.balance()).toMatchObject({ availableMinor: 0n })
  const { entries } = await settlements.listEntries({ businessId: seller.businessId })
  expect(entries).toMatchObject([
    {
      kind: 'SHARE_SETTLED',
      settlementId: made[0]!.id,
      transactionId: '',
      availableMinor: 12_500n,
    },
    { kind: 'SHARE_REVERSED', transactionId: transaction.id, sessionId: '', settlementId: '' },
  ])
  expect(await discrepanciesOf(service)).toEqual([])
})

test('a held payment is divided once it is accepted, by the split of when it arrived', async () => {
  const shop = await newShop()
  const recipients = SPLIT().recipients.slice(0, 1)
  const { pay } = await shop.open({ amount: '500', split: { recipients } })
  const short = await pay(400)
  await pay(500)
  await accounts().setAccountSplit({ businessId: shop.businessId, reference: 'order-1' })
  const before = (await seller.balance()).availableMinor
  await shop.events(1, 'PAYMENT_NOTIFICATION')
  await shop.settle()
  expect((await seller.balance()).availableMinor - before).toBe(6_250n)
  await heldPaymentsOf(service).acceptPayment({ transactionId: short.transaction.id })
  await shop.events(2, 'PAYMENT_NOTIFICATION')
  await shop.settle()
  expect((await seller.balance()).availableMinor - before).toBe(11_250n)
  expect(await discrepanciesOf(service)).toEqual([])
})

describe('from the command line', () => {
  const inflow = (...args: string[]) =>
    runHere(args, { INFLOW_GRPC_URL: service.grpcUrl, INFLOW_TOKEN: ADMIN_TOKEN })

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
    await recipient('approve', agent.businessId)
    const [first, second] = [seller.businessId, agent.businessId].toSorted()
    const page = await recipient('list', '--limit', '1')
    expect(page.stdout).toContain(first)
    expect(page.stdout).not.toContain(second)
    expect((await recipient('approve', shop.businessId)).stderr).toContain('another business')
    expect((await recipient('approve', 'biz_nobody')).stderr).toContain('not a known business')
    await recipient('revoke', seller.businessId)
    const { stdout } = await recipient('list')
    expect(stdout).not.toContain(seller.businessId)
    expect(stdout).toContain(agent.businessId)
    const { entries } = await service
      .client(AdminService)
      .listAuditEntries({ businessId: shop.businessId, pageSize: 3 })
    expect(entries.map(({ action, targetId }) => [action, targetId])).toEqual([
      ['split_recipient.revoke', seller.businessId],
      ['split_recipient.approve', agent.businessId],
      ['split_recipient.approve', seller.businessId],
    ])
  })
})
