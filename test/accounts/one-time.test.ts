import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt'
import { describe, expect, test } from 'vitest'
import { AccountStatus } from '../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { AmountRule } from '../../gen/inflow/account/v1/terms_pb.ts'
import { Variance } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { creation } from '../protocols/rest/rest.ts'
import { useFakeBank } from '../support/fake-bank.ts'
import { useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { newBusiness } from '../transactions/variance/fixture.ts'

const bank = useFakeBank()
const service = useService({ BANKS: '9PSB=live' }, bank.connectors)

const TERMS = {
  amount: 5000.5,
  amountRule: 'AT_LEAST',
  expiresIn: 3600,
  singleUse: true,
  allowedPayers: [{ name: 'Ada Obi' }, { accountNumber: '0123456789', bankCode: '000013' }],
  metadata: { order: '7', 'branch.code': 'Ìkejà' },
}

/** Lets the expiry of a business's accounts pass. */
const expire = (businessId: string) =>
  service.database.durablePool.query(
    `update account set expires_at = now() - interval '1 minute', end_due_at = now() - interval '1 minute'
      where business_id = $1`,
    [businessId],
  )

describe('opening a one-time account', () => {
  test('returns its terms and metadata, here and wherever it is shown', async () => {
    const shop = await newBusiness(service)
    const { data } = await shop.open(TERMS)
    const terms = {
      amount: 5000.5,
      amountRule: 'AT_LEAST',
      expiresAt: expect.stringMatching(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/),
      singleUse: true,
      status: 'ACTIVE',
      allowedPayers: [
        { accountNumber: '', bankCode: '', name: 'Ada Obi' },
        { accountNumber: '0123456789', bankCode: '000013', name: '' },
      ],
    }
    expect(data).toMatchObject({ metadata: TERMS.metadata })
    expect(data.terms).toEqual(terms)
    const again = await shop.call('getVirtualAccount', { reference: 'order-1' })
    expect(again.data).toMatchObject(data)
    expect(await shop.account()).toMatchObject({
      terms: { amountMinor: 500_050n, amountRule: AmountRule.AT_LEAST, singleUse: true },
      metadata: TERMS.metadata,
    })
    const [created] = await shop.events(1, 'ACCOUNT_CREATED')
    expect(created.data).toMatchObject({ metadata: TERMS.metadata, expected_amount: '5000.50' })
  })

  test('changes nothing for an account without options', async () => {
    const shop = await newBusiness(service)
    const { data, pay } = await shop.open({})
    expect(Object.keys(data)).toEqual(['reference', 'account', 'meta'])
    const { sessionId } = await pay(100)
    const { data: transaction } = await shop.call('getTransaction', { session_id: sessionId })
    expect(Object.keys(transaction)).toHaveLength(13)
    const events = await shop.events(2, 'ACCOUNT_CREATED', 'PAYMENT_NOTIFICATION')
    for (const { data: body } of events) {
      expect(body).not.toHaveProperty('metadata')
      expect(body).not.toHaveProperty('variance')
    }
    const { rowCount } = await service.database.durablePool.query(
      'select from payment_variance where business_id = $1',
      [shop.businessId],
    )
    expect(rowCount).toBe(0)
  })

  test('may be repeated with the same options only, also after it has expired', async () => {
    const shop = await newBusiness(service)
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString()
    const { data } = await shop.open({ amount: '100', expiresAt, metadata: { b: '2', a: '1' } })
    // The same request, written in another way.
    const same = { amount: 100, amountRule: 'EXACT', expiresAt, metadata: { a: '1', b: '2' } }
    const repeat = () => shop.call('generateVirtualAccount', creation(same))
    expect((await repeat()).data).toEqual(data)
    for (const other of [
      { ...same, amount: 101 },
      { ...same, amountRule: 'AT_MOST' },
      { ...same, expiresAt: undefined, expiresIn: 3600 },
      { ...same, singleUse: true },
      { ...same, allowedPayers: [{ name: 'Ada Obi' }] },
      { ...same, metadata: { a: '1' } },
      {},
    ]) {
      const answer = await shop.call('generateVirtualAccount', creation(other))
      expect(answer).toMatchObject({ status: false, code: 'duplicate_reference' })
    }
    const { durablePool } = service.database
    const past = new Date(Date.now() - 60_000)
    const seconds = { amount: 100, expiresIn: 60 }
    const first = await shop.open(seconds, 'order-2')
    await durablePool.query(
      'update account set expires_at = $2, end_due_at = $2 where business_id = $1',
      [shop.businessId, past],
    )
    await shop.ended('order-2')
    const replay = await shop.call(
      'generateVirtualAccount',
      creation({ reference: 'order-2', ...seconds }),
    )
    expect(replay.data.reference).toBe(first.data.reference)
    expect(replay.data.terms.status).toBe('EXPIRED')
  })

  test('may be repeated when its own time of expiry has passed, which no new account may name', async () => {
    const shop = await newBusiness(service)
    const terms = { amount: 100, expiresAt: new Date(Date.now() + 1_000).toISOString() }
    const { data } = await shop.open(terms)
    await shop.ended('order-1')
    const call = (body: Record<string, unknown>) =>
      shop.call('generateVirtualAccount', creation(body))
    const replay = await call(terms)
    expect(replay.data.reference).toBe(data.reference)
    const late = await call({ ...terms, reference: 'order-2' })
    expect(late).toMatchObject({ code: 'validation_failed', errors: [{ field: 'expiresAt' }] })
  })

  test.each<[string, Record<string, unknown>, string]>([
    ['amount', { amount: '0' }, 'amount'],
    ['amount', { amount: '1.005' }, 'amount'],
    ['amount', { amount: 1e21 }, 'amount'],
    ['amount', { amount: '-5' }, 'amount'],
    ['amount', { amount: true }, 'amount'],
    ['a rule without an amount', { amountRule: 'EXACT' }, 'amount'],
    ['an unknown rule', { amount: 5, amountRule: 'SOME' }, 'amountRule'],
    ['an expiry in the past', { expiresAt: '2020-01-01T00:00:00Z' }, 'expiresAt'],
    ['an expiry that is no time', { expiresAt: 'tomorrow' }, 'expiresAt'],
    ['a distant expiry', { expiresAt: '2999-01-01T00:00:00Z' }, 'expiresAt'],
    ['both expiries', { expiresAt: '2999-01-01T00:00:00Z', expiresIn: 60 }, 'expiresIn'],
    ['no seconds', { expiresIn: 0 }, 'expiresIn'],
    ['text for seconds', { expiresIn: '60' }, 'expiresIn'],
    ['text for a boolean', { singleUse: 'yes' }, 'singleUse'],
    ['one payer that is no list', { allowedPayers: { name: 'Ada Obi' } }, 'allowedPayers'],
    ['an empty payer', { allowedPayers: [{}] }, 'allowedPayers[0]'],
    [
      'a short number',
      { allowedPayers: [{ accountNumber: '1' }] },
      'allowedPayers[0].accountNumber',
    ],
    [
      'a mistyped name',
      { allowedPayers: [{ name: 'Ada Obi' }, { name: 5 }] },
      'allowedPayers[1].name',
    ],
    ['a name of one word', { allowedPayers: [{ name: 'Mr Ada' }] }, 'allowedPayers[0].name'],
    ['21 payers', { allowedPayers: Array(21).fill({ name: 'Ada Obi' }) }, 'allowedPayers'],
    ['metadata that is no object', { metadata: ['a'] }, 'metadata'],
    ['a number in metadata', { metadata: { a: 1 } }, 'metadata'],
    ['a long key', { metadata: { ['k'.repeat(41)]: 'v' } }, 'metadata'],
    ['a long value', { metadata: { k: 'v'.repeat(201) } }, 'metadata'],
    [
      '21 pairs',
      { metadata: Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`k${i}`, 'v'])) },
      'metadata',
    ],
  ])('refuses %s and names the field', async (_what, options, field) => {
    const shop = await newBusiness(service)
    const answer = await shop.call('generateVirtualAccount', creation(options))
    expect(answer).toMatchObject({ status: false, code: 'validation_failed' })
    expect(answer.errors.map((each: { field: string }) => each.field)).toEqual([field])
    expect(
      await service.client(AccountService).listAccounts({ businessId: shop.businessId }),
    ).toMatchObject({ accounts: [] })
  })

  test('takes the same options over gRPC', async () => {
    const shop = await newBusiness(service)
    const { account } = await service.client(AccountService).createAccount({
      ...{ businessId: shop.businessId, reference: 'order-1', bank: Bank.BANK_PROVIDUS },
      ...{ firstName: 'Ada', lastName: 'Obi', email: 'ada@example.com', phone: '08012345678' },
      ...{ amountMinor: 500n, amountRule: AmountRule.AT_MOST, expiresInSeconds: 60 },
      allowedPayers: [{ accountNumber: '0123456789' }],
      metadata: { order: '7' },
    })
    expect(account).toMatchObject({
      terms: {
        amountMinor: 500n,
        amountRule: AmountRule.AT_MOST,
        singleUse: false,
        allowedPayers: [{ accountNumber: '0123456789', bankCode: '' }],
      },
      metadata: { order: '7' },
    })
    expect(account?.terms?.expiresAt?.seconds).toBe((account?.createdAt?.seconds ?? 0n) + 60n)
  })
})

describe('the end of a one-time account', () => {
  test('an expired account ends by itself, with an event; payments are still recorded', async () => {
    const shop = await newBusiness(service)
    const { pay, number } = await shop.open({
      bank: 'PROVIDUS',
      expiresIn: 1,
      metadata: { order: '7' },
    })
    await shop.ended()
    const events = await shop.events(1, 'ACCOUNT_EXPIRED')
    expect(events).toHaveLength(1)
    expect(events[0].data).toMatchObject({
      type: 'RESERVED_ACCOUNT',
      merchant_reference: 'order-1',
      status: 'EXPIRED',
      account: { account_number: number },
      metadata: { order: '7' },
    })
    expect((await pay(100)).transaction.variance).toBe(Variance.EXPIRED)
    const { data } = await shop.call('getVirtualAccount', { reference: 'order-1' })
    expect(data.terms.status).toBe('EXPIRED')
  })

  test('a payment in time is as expected, also if the bank reports it after the account has ended', async () => {
    const shop = await newBusiness(service)
    const { pay } = await shop.open({ bank: 'PROVIDUS', expiresIn: 3600, singleUse: true })
    await expire(shop.businessId)
    const { terms } = await shop.ended()
    const expiredMs = timestampMs(terms!.expiresAt!)
    const late = await pay(100, { paidAt: timestampFromMs(expiredMs) })
    expect(late.transaction.variance).toBe(Variance.EXPIRED)
    const inTime = { paidAt: timestampFromMs(expiredMs - 1) }
    expect((await pay(100, inTime)).transaction.variance).toBe(Variance.NONE)
    expect((await pay(100, inTime)).transaction.variance).toBe(Variance.REPEATED)
    expect(await shop.balance()).toMatchObject({ pendingMinor: 10_000n })
    expect(await shop.account()).toMatchObject({ status: AccountStatus.EXPIRED })
  })

  test('a used account ends by itself; what is paid later is REPEATED', async () => {
    const shop = await newBusiness(service)
    const { pay } = await shop.open({ singleUse: true, expiresIn: 3600 })
    expect((await pay(100)).transaction.variance).toBe(Variance.NONE)
    await shop.ended()
    expect((await pay(100)).transaction.variance).toBe(Variance.REPEATED)
  })

  test('closes the account at the bank, with retries until the bank has closed it', async () => {
    const shop = await newBusiness(service)
    const { number } = await shop.open({ bank: '9PSB', expiresIn: 3600 })
    const { durablePool } = service.database
    // The bank fails to close this account, not one that an earlier test has ended.
    await waitFor(async () => {
      const ending = `select from account where connector = 'live'
        and (end_due_at <= now() or status <> 'ACTIVE' and end_due_at < now() + interval '1 day')`
      expect((await durablePool.query(ending)).rowCount).toBe(0)
    })
    bank.mishaps.set('POST close', [500])
    await expire(shop.businessId)
    await shop.ended()
    /** How long after its end the account is due, in seconds. */
    const dueAfter = async () => {
      const text = `select extract(epoch from end_due_at - ended_at)::float8 as seconds from account
        where business_id = $1`
      return (await durablePool.query(text, [shop.businessId])).rows[0].seconds
    }
    // The first attempt failed: it is due again.
    await waitFor(async () => {
      expect(bank.mishaps.get('POST close')).toEqual([])
      expect(await dueAfter()).toBeLessThan(86_400)
    })
    expect(bank.closed).not.toContain(number)
    await durablePool.query('update account set end_due_at = now() where business_id = $1', [
      shop.businessId,
    ])
    await waitFor(() => expect(bank.closed).toContain(number))
    // Reconciliation still lists it for some days.
    await waitFor(async () => expect(await dueAfter()).toBe(3 * 86_400))
    await durablePool.query(
      "update account set ended_at = now() - interval '4 days', end_due_at = now() where business_id = $1",
      [shop.businessId],
    )
    await waitFor(async () => expect(await dueAfter()).toBeNull())
    const events = await shop.events(1, 'ACCOUNT_EXPIRED')
    expect(events).toHaveLength(1)
  })

  test('does not free its number', async () => {
    const shop = await newBusiness(service)
    const { number } = await shop.open({ bank: '9PSB', expiresIn: 3600 })
    await expire(shop.businessId)
    await shop.ended()
    bank.nextNumber = number
    const answer = await shop.call(
      'generateVirtualAccount',
      creation({ bank: '9PSB', reference: 'order-2' }),
    )
    expect(answer).toMatchObject({ status: false, code: 'account_in_review' })
    const { accounts } = await service.client(AccountService).listAccounts({
      businessId: shop.businessId,
      status: AccountStatus.ACTIVE,
    })
    expect(accounts).toEqual([])
  })

  test('an ended account may be closed: its payments are then unmatched', async () => {
    const shop = await newBusiness(service)
    const { pay } = await shop.open({ expiresIn: 3600, bank: 'PROVIDUS' })
    await expire(shop.businessId)
    await shop.ended()
    const close = { businessId: shop.businessId, reference: 'order-1' }
    const { account } = await service.client(AccountService).closeAccount(close)
    expect(account?.status).toBe(AccountStatus.CLOSED)
    expect((await pay(100)).transaction).toBeUndefined()
  })

  test('many accounts end in batches', async () => {
    const shop = await newBusiness(service)
    const count = 250
    const references = Array.from({ length: count }, (_, at) => `order-${at}`)
    await Promise.all(
      references.map((reference) => shop.open({ bank: 'PROVIDUS', expiresIn: 3600 }, reference)),
    )
    await expire(shop.businessId)
    await waitFor(async () => {
      const { rows } = await service.database.durablePool.query(
        "select count(*)::int as count from account where business_id = $1 and status = 'EXPIRED'",
        [shop.businessId],
      )
      expect(rows[0].count).toBe(count)
    })
  })
})
