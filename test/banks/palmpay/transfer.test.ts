import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import {
  type FakePalmPay,
  type PalmPayFault,
  type PalmPayOperation,
  startFakePalmPay,
} from '../../../src/banks/palmpay/fake.ts'
import type { TransferOrder } from '../../../src/banks/transfer.ts'
import { startReceiver } from '../../support/receiver.ts'
import {
  describeTransfers,
  fakeTransfers,
  transferOrder,
  transfersOf,
} from '../transfer-guarantees.ts'
import { notificationOf, signal, usePalmPay } from './fixture.ts'

const palm = usePalmPay()

let bank: FakePalmPay
beforeEach(async () => {
  bank = await startFakePalmPay({ port: 0, credentials: palm.credentials })
  onTestFinished(() => bank.close())
})

const transfers = (environment: NodeJS.ProcessEnv = {}, url = bank.url) =>
  transfersOf(palm.connector(environment, url))
const booked = ({ reference }: TransferOrder) => bank.outgoing.transfers.get(reference)
const fail = (operation: PalmPayOperation, fault: PalmPayFault) => bank.faults.add(operation, fault)

async function start(url = bank.url) {
  const fake = fakeTransfers(
    bank,
    {
      enquire: 'queryBankAccount',
      send: 'payout',
      find: 'queryPayStatus',
      account: 'queryBalance',
    },
    { 'odd code': 'code AC100003', denied: 'code OPEN_GW_000012' },
  )
  return { transfers: transfers({}, url), fake }
}

describeTransfers(start, start)

describe('settings', () => {
  const without = { BANK_PALMPAY_TRANSFER_MERCHANT_ID: '', BANK_PALMPAY_TRANSFER_NOTIFY_URL: '' }

  test('without a merchant id there are no transfers', () => {
    expect(palm.connector(without).transfers).toBeUndefined()
  })

  test('the merchant id needs a URL for notifications', () => {
    const { faults } = palm.settings({ ...without, BANK_PALMPAY_TRANSFER_MERCHANT_ID: '1' })
    expect(faults).toEqual([
      'BANK_PALMPAY_TRANSFER_NOTIFY_URL is required: a URL such as https://bank.example',
    ])
  })
})

describe('a name enquiry of an account at PalmPay itself', () => {
  const own = { bankCode: '100033', accountNumber: '8012345678' }

  test('has a call of its own', async () => {
    expect(await transfers().enquireName(own, signal)).toEqual({
      kind: 'found',
      accountName: bank.outgoing.nameOf(own.accountNumber),
      enquiryReference: '',
    })
    expect([bank.requests.queryAccount, bank.requests.queryBankAccount]).toEqual([1, 0])
    const absent = { ...own, accountNumber: '0001234567' }
    expect((await transfers().enquireName(absent, signal)).kind).toBe('not found')
  })

  test.each(['cut', '500', 'page', 'code AC100003'] as const)(
    'is unavailable after %s',
    async (fault) => {
      fail('queryAccount', fault)
      expect((await transfers().enquireName(own, signal)).kind).toBe('unavailable')
    },
  )
})

test('a payout without a narration has its reference for a remark', async () => {
  const order = transferOrder({ narration: '' })
  await transfers().send(order, signal)
  expect(booked(order)?.narration).toBe(order.reference)
})

test('a payout that the gateway rejects fails', async () => {
  fail('payout', 'code OPEN_GW_000020')
  const failed = { kind: 'failed', reason: 'bank_rejected' }
  expect(await transfers().send(transferOrder(), signal)).toMatchObject(failed)
})

test.each([
  ['invalid parameter: payeeBankCode', 'failed'],
  ['invalid parameter: orderId already exists', 'unknown'],
  ['duplicate orderId', 'unknown'],
])('a payout that the gateway rejects with "%s" is %s', async (respMsg, kind) => {
  const receiver = await startReceiver()
  onTestFinished(() => receiver.close())
  receiver.answer({ status: 200, body: JSON.stringify({ respCode: 'OPEN_GW_000020', respMsg }) })
  expect((await transfers({}, receiver.url).send(transferOrder(), signal)).kind).toBe(kind)
})

test.each([
  [{ respCode: 'AC100003', respMsg: 'Failed: payee insufficient' }, 'unknown'],
  [{ respCode: 'AC100003', respMsg: 'Failed: insufficient balance' }, 'failed'],
])('the narration in the text of %j is no cause: %s', async (body, kind) => {
  const receiver = await startReceiver()
  onTestFinished(() => receiver.close())
  receiver.answer({ status: 200, body: JSON.stringify(body) })
  const order = transferOrder({ narration: 'Payee insufficient' })
  expect((await transfers({}, receiver.url).send(order, signal)).kind).toBe(kind)
})

test.each([
  ['Failed: Refund 123', 'failed'],
  ['Refund 123 was returned', 'returned'],
])(
  'a failed payout with the text "%s" and the narration of a refund is %s',
  async (errorMsg, kind) => {
    const receiver = await startReceiver()
    onTestFinished(() => receiver.close())
    const order = transferOrder({ narration: 'Refund 123' })
    const data = { orderId: order.reference, orderStatus: 3, errorMsg }
    receiver.answer({
      status: 200,
      body: JSON.stringify({ respCode: '00000000', respMsg: 'success', data }),
    })
    expect((await transfers({}, receiver.url).find(order, signal)).kind).toBe(kind)
  },
)

test('a payout with a code that is not known is unknown, whether it was made or not', async () => {
  const [made, notMade] = [transferOrder(), transferOrder()]
  fail('payout', 'done, code AC100003')
  expect((await transfers().send(made, signal)).kind).toBe('unknown')
  fail('payout', 'code AC100003')
  expect((await transfers().send(notMade, signal)).kind).toBe('unknown')
  expect((await transfers().find(made, signal)).kind).toBe('paid')
  expect((await transfers().find(notMade, signal)).kind).toBe('not found')
})

test('a payout about another amount is unknown', async () => {
  const order = transferOrder()
  fail('payout', 'other amount')
  expect((await transfers().send(order, signal)).kind).toBe('unknown')
  fail('queryPayStatus', 'other amount')
  expect((await transfers().find(order, signal)).kind).toBe('unknown')
  expect((await transfers().find(order, signal)).kind).toBe('paid')
})

test('the float is read of our merchant id only', async () => {
  const other = transfers({ BANK_PALMPAY_TRANSFER_MERCHANT_ID: '1' })
  expect((await other.readFloat!(signal)).kind).toBe('unavailable')
})

test('the notification of a payout is acknowledged and changes nothing', () => {
  const reading = palm.connector().read(notificationOf(bank.payout(150_050n)))
  expect(reading.kind).toBe('ignored')
})
