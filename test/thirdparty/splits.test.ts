import { beforeAll, describe, expect, test } from 'vitest'
import { Schedule } from '../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { encryptedAccounts } from '../../src/accounts/re-encrypt-accounts.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { creation } from '../protocols/rest/rest.ts'
import { MASTER_KEY, useSharedService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import {
  approveRecipient,
  audited,
  data,
  openByKey,
  type ScopedBusiness,
  scopedBusiness,
  settleTest,
} from './scene.ts'

const service = useSharedService()
let shop: ScopedBusiness
let seller: ScopedBusiness

beforeAll(async () => {
  shop = await scopedBusiness(service)
  seller = await scopedBusiness(service)
  await approveRecipient(service, shop.id, seller.id)
})

const splitOf = (percentage: string) => ({
  recipients: [{ businessId: seller.id, percentage }],
  feeBearer: 'OWNER',
})
const shownSplit = (percentage: string) => ({
  recipients: [{ businessId: seller.id, percentage, amount: '' }],
  feeBearer: 'OWNER',
})

describe('updateVirtualAccount/ with a split', () => {
  const update = (request: object) =>
    data(service, shop.live, 'updateVirtualAccount', { ...request })

  test('replaces it, for every look-up, and removes it without recipients', async () => {
    const { reference } = await openByKey(service, shop.live, { reference: 's-1' })
    const updated = await update({ reference, split: splitOf('10') })
    expect(updated.split).toEqual(shownSplit('10.00'))
    const [entry] = await audited(service, shop.id, 1)
    const after = JSON.stringify(['OWNER', [seller.id, 1_000, null]])
    expect(entry).toMatchObject({
      action: 'account.set_split',
      details: { reference, before: '', after },
    })
    const shown = await data(service, shop.live, 'getVirtualAccount', { reference })
    expect(shown.split).toEqual(shownSplit('10.00'))
    const { accounts } = await data(service, shop.live, 'listVirtualAccounts')
    expect(accounts).toMatchObject([{ reference, split: shownSplit('10.00') }])
    // Without the field it stays.
    const renamed = await update({ reference, firstName: 'Adah' })
    expect(renamed.split).toEqual(shownSplit('10.00'))
    expect(await update({ reference, split: { recipients: [] } })).not.toHaveProperty('split')
  })

  test('changes nothing at all if the split is refused', async () => {
    const { reference } = await openByKey(service, shop.live, { reference: 's-2' })
    const split = { recipients: [{ businessId: 'biz_x', percentage: 1 }] }
    const request = { reference, firstName: 'Adah', split }
    const { status, body } = await service.post('updateVirtualAccount/', shop.live, request)
    expect([status, body.errors[0].field]).toEqual([422, 'split.recipients[0].businessId'])
    const { meta } = await data(service, shop.live, 'getVirtualAccount', { reference })
    expect(meta.firstName).toBe('Ada')
  })

  test('of a business that is not approved answers as for one that does not exist', async () => {
    const stranger = await scopedBusiness(service)
    const { reference } = await openByKey(service, shop.live, { reference: 's-4' })
    const approved = { businessId: seller.id, percentage: '10' }
    const answers: string[] = []
    for (const businessId of [stranger.id, 'biz_00000000000000000000000000']) {
      const split = { recipients: [approved, { businessId, percentage: '10' }] }
      for (const [path, request] of [
        ['updateVirtualAccount/', { reference, split }],
        ['generateVirtualAccount/', creation({ reference: 's-5', split })],
      ] as const) {
        const { status, body, text } = await service.post(path, shop.live, request)
        expect(status).toBe(422)
        answers.push(`${path} ${text.replaceAll(body.request_id, '')}`)
      }
    }
    expect(new Set(answers).size).toBe(2)
    expect(answers[0]).toContain('split.recipients[1].businessId')
    expect(await data(service, shop.live, 'getVirtualAccount', { reference })).not.toHaveProperty(
      'split',
    )
  })
})

test('changed details of an account that was opened with a split are those of a repeat', async () => {
  const opening = { reference: 's-3', split: splitOf('10') }
  const { reference } = await openByKey(service, shop.live, opening)
  const changes = { reference, lastName: 'Ade', split: splitOf('20') }
  await data(service, shop.live, 'updateVirtualAccount', changes)
  const repeat = (overrides: object) =>
    service.post('generateVirtualAccount/', shop.live, creation({ ...opening, ...overrides }))
  expect((await repeat({ lastName: 'Ade' })).body.data.split).toEqual(shownSplit('20.00'))
  expect((await repeat({})).body.code).toBe('duplicate_reference')
  const next = createEncrypter(Buffer.alloc(32, 9), [MASTER_KEY])
  const encrypted = encryptedAccounts(service.database)
  expect(await encrypted.reEncrypt(next, '', 1_000)).toMatchObject({ unreadable: [] })
  const back = createEncrypter(MASTER_KEY, [Buffer.alloc(32, 9)])
  expect(await encrypted.reEncrypt(back, '', 1_000)).toMatchObject({ unreadable: [] })
})

test('payments, settlements and statements of both parties show what was split', async () => {
  const settlements = service.client(SettlementService)
  const terms = { schedule: Schedule.WORKING_DAYS, workingDays: 5, feeBasisPoints: 100 }
  await settlements.updateSettlementTerms({ businessId: shop.id, terms })
  const { reference } = await openByKey(service, shop.test, { split: splitOf('12.5') })
  const paid = { reference, amount: '1000' }
  const { session_id } = await data(service, shop.test, 'simulatePayment', paid)
  const id = await settleTest(service, shop.id, 1n)
  const listed = async () => {
    const page = await data(service, shop.test, 'listTransactions', { session_id })
    return page.transactions[0]
  }
  expect(await listed()).toMatchObject({ amount: 1000, fee: 10, splits: 125, net: 865 })
  const page = await data(service, shop.test, 'listSettlements')
  expect(page.settlements).toMatchObject([
    { settlement_id: id, gross_amount: 1000, fees: 10, splits: 125, net_amount: 865 },
  ])

  const { transaction } = await service
    .client(TransactionService)
    .getTransaction({ businessId: shop.id, sessionId: session_id })
  const reversal = { transactionId: transaction!.id, reason: 'sent twice' }
  await service.client(TransactionService).reverseTransaction(reversal)
  expect(await listed()).toMatchObject({ status: 'REVERSED', fee: 0, splits: 0, net: 0 })
  const statement = await waitFor(async () => {
    const found = await data(service, seller.test, 'getStatement')
    expect(found.entries).toHaveLength(2)
    return found
  })
  const [settled, reversed] = statement.entries
  expect(settled).toMatchObject({ event: 'SHARE_SETTLED', settlement_id: id, available: 125 })
  expect(reversed).toMatchObject({ event: 'SHARE_REVERSED', available: -125 })
  // The payment is another business's.
  for (const entry of [settled, reversed]) expect(entry).not.toHaveProperty('session_id')
  expect(reversed).not.toHaveProperty('settlement_id')
  expect(statement.closing_balance).toMatchObject({ pending: 0, available: 0 })
})
