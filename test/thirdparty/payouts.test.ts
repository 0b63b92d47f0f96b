import { beforeAll, describe, expect, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { nuban } from '../../src/banks/nuban.ts'
import { MAGIC_ACCOUNTS } from '../../src/banks/sandbox.ts'
import { keyIdOf } from '../../src/businesses/secret-key.ts'
import { fresh, settleAll } from '../overview/scene.ts'
import { payerAt } from '../payouts/scene.ts'
import { type RestAnswer, useSharedService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import {
  audited,
  data,
  openByKey,
  type ScopedBusiness,
  scopedBusiness,
  settleTest,
} from './scene.ts'

const service = useSharedService()
const AVAILABLE = 10_000
const ADA = { bank_code: '058', account_number: nuban('058', 145_700_011) }
const magic = (digits: string) => ({ ...ADA, account_number: nuban('058', Number(digits)) })

/** A business with 10,000 naira that are available, from one payment. */
interface FundedBusiness extends ScopedBusiness {
  readonly sessionId: string
  readonly accountNumber: string
}

async function funded(): Promise<FundedBusiness> {
  const business = await scopedBusiness(service)
  const { number: accountNumber } = await openByKey(service, business.live)
  const sessionId = await receive(accountNumber)
  await settleAll(service, business.id, 1n)
  return { ...business, sessionId, accountNumber }
}

/** Records a payment of 10,000 naira by Ada. @returns its session id */
async function receive(accountNumber: string, payer = ADA): Promise<string> {
  const sessionId = fresh('rest-payout')
  await service.client(TransactionService).recordPayment({
    bank: Bank.BANK_9PSB,
    accountNumber,
    sessionId,
    amountMinor: BigInt(AVAILABLE * 100),
    payer: payerAt(payer.account_number),
  })
  return sessionId
}

let business: FundedBusiness
let resolution: string

beforeAll(async () => {
  business = await funded()
  resolution = (await data(service, business.live, 'resolveAccountName', ADA)).resolution
})

/** A request of business that goes well. */
const payout = (more: Readonly<Record<string, unknown>> = {}) => ({
  reference: fresh('payout'),
  amount: 1,
  ...ADA,
  resolution,
  ...more,
})

/** Posts what must fail. @returns the status, the code and the fields */
async function refused(path: string, request: object, key = business.live) {
  const { status, body } = await service.post(`${path}/`, key, request)
  const { code, errors = [] } = body
  return [status, code, ...errors.map(({ field }: { field: string }) => field)]
}

async function until(reference: string, status: string, key = business.live) {
  let found: RestAnswer['body']
  await waitFor(async () => {
    found = await data(service, key, 'getPayout', { reference })
    expect(found.status).toBe(status)
  })
  return found
}

describe('createPayout/', () => {
  test('pays an account whose name was resolved, and a repeat returns the original', async () => {
    const { live } = business
    const resolved = await data(service, live, 'resolveAccountName', ADA)
    expect(resolved).toEqual({
      bank_code: '000013',
      bank_name: 'Guaranty Trust Bank',
      account_number: ADA.account_number,
      account_name: expect.stringMatching(/^[A-Z ]+$/),
      resolution: expect.any(String),
      expires_at: expect.stringMatching(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/),
    })
    const request = payout({ amount: '1500.50', narration: 'Salary' })
    const before = await data(service, live, 'getBalance')
    const created = await service.post('createPayout/', live, request)
    expect(created.headers.has('idempotent-replayed')).toBe(false)
    expect(created.body).toMatchObject({
      status: true,
      message: 'Payout requested',
      data: {
        payout_id: expect.stringMatching(/^pay_/),
        reference: request.reference,
        purpose: 'PAYOUT',
        amount: 1500.5,
        fee: 0,
        duty: 0,
        bank_code: '000013',
        account_number: ADA.account_number,
        narration: 'Salary',
        account_name: resolved.account_name,
        currency: 'NGN',
      },
    })
    const paid = await until(request.reference, 'PAID')
    expect(paid).toMatchObject({
      session_id: expect.stringMatching(/^\d{30}$/),
      completed_at: expect.any(String),
    })
    const { payout_id, reference, session_id } = paid
    await waitFor(async () => {
      const { events } = await data(service, live, 'listEvents')
      expect(events.at(-1)).toMatchObject({
        event: 'PAYOUT_PAID',
        data: {
          type: 'PAYOUT',
          amount: '1500.50',
          status: 'PAID',
          payout: { payout_id, reference, session_id, fee: '0.00' },
        },
      })
    })
    const repeated = await service.post('createPayout/', live, request)
    expect(repeated.headers.get('idempotent-replayed')).toBe('true')
    expect(repeated.body.data).toEqual(paid)
    expect(await data(service, live, 'getBalance')).toMatchObject({
      available: before.available - 1500.5,
    })
    const { payouts } = await data(service, live, 'listPayouts', { status: 'PAID', page_size: 1 })
    expect(payouts).toEqual([paid])
  })

  test('has one payout for a reference, over each protocol, and after its business was renamed', async () => {
    const { id: businessId, live } = await funded()
    const { resolution: own } = await data(service, live, 'resolveAccountName', ADA)
    const request = payout({ resolution: own })
    const { payout_id } = await data(service, live, 'createPayout', request)
    await service.client(BusinessService).updateBusiness({ businessId, name: 'Another Name' })
    const beneficiary = { bankCode: '058', accountNumber: ADA.account_number, accountName: 'ADA' }
    const { reference } = request
    const details = { businessId, reference, amountMinor: 100n, beneficiary }
    const client = service.client(PayoutService)
    expect(await client.createPayout(details)).toMatchObject({
      replayed: true,
      payout: { id: payout_id },
    })
    const repeated = await service.post('createPayout/', live, request)
    expect(repeated.body.data.payout_id).toBe(payout_id)
    for (const other of [{ amount: 2 }, { narration: 'Rent' }, magic('145700012')]) {
      const fault = await refused('createPayout', { ...request, ...other }, live)
      expect(fault).toEqual([409, 'duplicate_reference', 'reference'])
    }
  })

  test.each([
    ['an amount of 0', { amount: 0 }, ['amount']],
    ['three decimals', { amount: '1.005' }, ['amount']],
    ['a kobo more than the largest amount', { amount: '10000000000000.01' }, ['amount']],
    ['the largest number of 64 bits', { amount: '92233720368547758.07' }, ['amount']],
    ['an exponent in a text', { amount: '1e3' }, ['amount']],
    ['digits of another script', { amount: '\u0663' }, ['amount']],
    ['a list', { amount: [1] }, ['amount']],
    ['an unknown bank', { bank_code: '999' }, ['bank_code']],
    ['a short number', { account_number: '123' }, ['account_number']],
    ['neither name nor resolution', { resolution: '' }, ['account_name']],
    ['a resolution that is none', { resolution: 'x' }, ['resolution']],
    ['no reference', { reference: '' }, ['reference']],
    ['a long narration', { narration: 'x'.repeat(101) }, ['narration']],
    ['a narration with U+0000', { narration: 'a\u0000b' }, ['narration']],
    ['a narration with a line break', { narration: 'a\nb' }, ['narration']],
    ['a narration that reverses what follows', { narration: '\u202eab' }, ['narration']],
    ['half a character', { narration: '\ud83d' }, ['narration']],
    ['an invisible character in a name', { account_name: 'ADA\u200bOBI' }, ['account_name']],
    ['U+0000 in a reference', { reference: 'a\u0000b' }, ['reference']],
    ['an unknown field', { accountNo: '1' }, ['accountNo']],
  ])('refuses %s by the name of the field', async (_what, more, fields) => {
    expect(await refused('createPayout', payout(more))).toEqual([
      422,
      'validation_failed',
      ...fields,
    ])
  })

  test('sums amounts exactly, up to what can be stored: what exceeds it is refused by the name of the field', async () => {
    // Payments in test mode cost nothing, so a stranger can request such sums.
    const { id } = business
    const { resolution } = await data(service, business.test, 'resolveAccountName', ADA)
    await openByKey(service, business.test, { reference: 'sums' })
    await data(service, business.test, 'simulatePayment', { reference: 'sums', amount: 2 })
    await settleTest(service, id, 1n)
    const { rows } = await service.database.durablePool.query<{ left: string }>(
      `insert into payout_day
        values ($1, false, (now() at time zone 'Africa/Lagos')::date, 9223372036854775707)
        returning 9223372036854775807 - requested_minor as left`,
      [id],
    )
    expect(rows).toEqual([{ left: '100' }])
    const request = (amount: string) => payout({ amount, resolution })
    expect(await refused('createPayout', request('1.01'), business.test)).toEqual([
      422,
      'validation_failed',
      'amount',
    ])
    await data(service, business.test, 'createPayout', request('1.00'))
    expect(await refused('createPayout', request('0.01'), business.test)).toEqual([
      422,
      'validation_failed',
      'amount',
    ])
  })

  test('has the whole name of the business as its narration, whatever its characters', async () => {
    const name = `a${'\u{1f600}'.repeat(60)}`
    const { id } = business
    await service.client(BusinessService).updateBusiness({ businessId: id, name })
    const { narration } = await data(service, business.live, 'createPayout', payout())
    expect(narration).toBe(name)
  })

  test('refuses an account that the bank does not know, and a limit, by the name of the field', async () => {
    const unknown = magic(MAGIC_ACCOUNTS.isUnknown)
    const request = payout({ ...unknown, resolution: '', account_name: 'Ada Obi' })
    const fault = [422, 'validation_failed', 'account_number']
    expect(await refused('createPayout', request)).toEqual(fault)
    expect(await refused('resolveAccountName', unknown)).toEqual(fault)
    const policy = { businessId: business.id, payoutMaxMinor: 500n }
    await service.client(PayoutService).updatePayoutPolicy({ policy })
    expect(await refused('createPayout', payout({ amount: 6 }))).toEqual([
      422,
      'validation_failed',
      'amount',
    ])
    await service.client(PayoutService).updatePayoutPolicy({ policy: { businessId: business.id } })
  })

  test('states both names if they differ', async () => {
    const request = payout({ resolution: '', account_name: 'Another Name' })
    const { status, body } = await service.post('createPayout/', business.live, request)
    expect([status, body.code]).toEqual([422, 'name_mismatch'])
    const { account_name: stated } = await data(service, business.live, 'resolveAccountName', ADA)
    expect(body.errors).toEqual([
      { field: 'account_name', message: expect.stringContaining(`"${stated}"`) },
    ])
    expect(body.message).toContain('"Another Name"')
  })
})

test('cancelPayout/ gives the money of a payout back that awaits approval', async () => {
  const { id, live } = await funded()
  const { account_name } = await data(service, live, 'resolveAccountName', ADA)
  const newPayout = () => payout({ resolution: '', account_name })
  const client = service.client(PayoutService)
  await client.updatePayoutPolicy({ policy: { businessId: id, approvalAboveMinor: 0n } })
  const before = await data(service, live, 'getBalance')
  const request = newPayout()
  const requested = await data(service, live, 'createPayout', request)
  expect(requested).toMatchObject({ status: 'PENDING_APPROVAL', expires_at: expect.any(String) })
  expect(await data(service, live, 'getBalance')).toMatchObject({
    available: before.available - 1,
    reserved: before.reserved + 1,
  })
  const { reference } = request
  const cancelled = await data(service, live, 'cancelPayout', { reference })
  expect(cancelled).toMatchObject({ reference, status: 'CANCELLED' })
  expect(await data(service, live, 'cancelPayout', { reference })).toEqual(cancelled)
  expect(await data(service, live, 'getBalance')).toEqual(before)
  const [entry] = await audited(service, id, 1)
  expect(entry).toMatchObject({ action: 'payout.cancel', by: `secret_key ${keyIdOf(live)}` })
  await client.updatePayoutPolicy({ policy: { businessId: id } })
  const sent = newPayout()
  await data(service, live, 'createPayout', sent)
  await until(sent.reference, 'PAID', live)
  const late = { reference: sent.reference }
  expect(await refused('cancelPayout', late, live)).toEqual([409, 'payout_not_pending'])
})

describe('refundTransaction/', () => {
  test('refunds a payment to its payer in parts that together never exceed it', async () => {
    const owner = await funded()
    const refund = {
      session_id: owner.sessionId,
      amount: 4_000,
      reason: 'sold out',
      reference: 'r1',
    }
    const first = await service.post('refundTransaction/', owner.live, refund)
    expect(first.body).toMatchObject({
      message: 'Refund requested',
      data: {
        purpose: 'REFUND',
        reference: 'r1',
        amount: 4_000,
        refundable: 6_000,
        account_number: ADA.account_number,
        refunded_transaction: owner.sessionId,
      },
    })
    const repeated = await service.post('refundTransaction/', owner.live, refund)
    expect(repeated.headers.get('idempotent-replayed')).toBe('true')
    expect(repeated.body.data).toMatchObject({ payout_id: first.body.data.payout_id })
    const { session_id } = refund
    const more = { session_id, amount: '6000.01' }
    const fault = [409, 'refund_exceeds_payment', 'amount']
    expect(await refused('refundTransaction', more, owner.live)).toEqual(fault)
    const rest = await data(service, owner.live, 'refundTransaction', { session_id })
    expect(rest).toMatchObject({ amount: 6_000, refundable: 0 })
    await until(rest.reference, 'PAID', owner.live)
    const again = refused('refundTransaction', { session_id }, owner.live)
    expect(await again).toEqual([409, 'refund_exceeds_payment', 'amount'])
  })

  test('asks for an account if the bank hid the payer, and has such a refund approved', async () => {
    const { live, accountNumber } = business
    const session_id = await receive(accountNumber, { ...ADA, account_number: '' })
    expect(await refused('refundTransaction', { session_id })).toEqual([
      422,
      'validation_failed',
      'account_number',
    ])
    expect(await refused('refundTransaction', { session_id, bank_code: '058' })).toEqual([
      422,
      'validation_failed',
      'account_number',
      'account_name',
    ])
    const { account_name } = await data(service, live, 'resolveAccountName', ADA)
    const stated = { session_id, ...ADA, account_name }
    expect(await refused('refundTransaction', { ...stated, account_name: 'Else' })).toEqual([
      422,
      'name_mismatch',
      'account_name',
    ])
    expect(await data(service, live, 'refundTransaction', stated)).toMatchObject({
      status: 'PENDING_APPROVAL',
      purpose: 'REFUND',
      amount: AVAILABLE,
    })
  })
})

test('getStatement/ names the payouts behind its entries', async () => {
  const owner = await funded()
  const { resolution: named } = await data(service, owner.live, 'resolveAccountName', ADA)
  const request = payout({ resolution: named, amount: 100 })
  const { payout_id } = await data(service, owner.live, 'createPayout', request)
  await until(request.reference, 'PAID', owner.live)
  await waitFor(async () => {
    const { entries, closing_balance } = await data(service, owner.live, 'getStatement')
    const [requested, paid] = entries.slice(-2)
    expect(requested).toMatchObject({ event: 'PAYOUT_REQUESTED', payout_id, available: -100 })
    expect(requested).not.toHaveProperty('session_id')
    expect(paid).toMatchObject({ event: 'PAYOUT_PAID', payout_id, available: 0 })
    expect(closing_balance).not.toHaveProperty('reserved')
  })
})

describe('keys', () => {
  const PATHS = [
    'listBanks',
    'resolveAccountName',
    'createPayout',
    'getPayout',
    'listPayouts',
    'cancelPayout',
    'refundTransaction',
  ]
  const businesses = () => service.client(BusinessService)
  const forPayouts = { scopes: ['payouts'] }

  test('are not issued, imported or changed so that they move money from any address', async () => {
    const { id: businessId } = business
    const fault = { rawMessage: 'Invalid request: allowedCidrs' }
    await expect(businesses().issueKey({ businessId, ...forPayouts })).rejects.toMatchObject(fault)
    const secretKey = `other-provider_${fresh('0123456789abcdef')}`
    const imported = businesses().importKey({ businessId, ...forPayouts, secretKey })
    await expect(imported).rejects.toMatchObject(fault)
    const allowedCidrs = ['203.0.113.0/24']
    const { key } = await businesses().issueKey({ businessId, ...forPayouts, allowedCidrs })
    const opened = businesses().updateKey({ keyId: key!.id, anyAddress: true })
    await expect(opened).rejects.toMatchObject(fault)
  })

  test('are not bound to more addresses than one network has', async () => {
    const { id: businessId } = business
    const fault = { rawMessage: 'Invalid request: allowedCidrs' }
    const issue = (range: string) =>
      businesses().issueKey({ businessId, ...forPayouts, allowedCidrs: ['203.0.113.0/24', range] })
    for (const range of ['0.0.0.0/0', '128.0.0.0/7', '::/0', '2000::/15', '::ffff:0.0.0.0/96']) {
      await expect(issue(range), range).rejects.toMatchObject(fault)
    }
    const { key } = await issue('10.0.0.0/8')
    await issue('2001::/16')
    const [keyId, allowedCidrs] = [key!.id, ['0.0.0.0/1', '128.0.0.0/1']]
    await expect(businesses().updateKey({ keyId, allowedCidrs })).rejects.toMatchObject(fault)
    // A key that moves no money is bound to what its business likes.
    await businesses().issueKey({ businessId, allowedCidrs: ['0.0.0.0/0'] })
  })

  test('are refused if the database has one that is bound to no address, and from other addresses', async () => {
    const { secretKey } = await businesses().issueKey({
      businessId: business.id,
      ...forPayouts,
      allowedCidrs: ['203.0.113.0/24'],
    })
    expect(await refused('createPayout', payout(), secretKey)).toEqual([403, 'address_not_allowed'])
    const { secretKey: unbound } = await businesses().issueKey({
      businessId: business.id,
      ...forPayouts,
      allowedCidrs: ['127.0.0.0/8'],
    })
    await service.database.durablePool.query(
      "update api_key set allowed_cidrs = '{}' where id = $1",
      [keyIdOf(unbound)],
    )
    for (const path of PATHS) {
      expect([path, await refused(path, {}, unbound)]).toEqual([path, [403, 'permission_denied']])
    }
  })
})
