import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { AccountStatus } from '../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { Variance } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { createEndAccounts } from '../../src/accounts/close-account.ts'
import { systemClock } from '../../src/core/clock.ts'
import { DAY_MS, HOUR_MS } from '../../src/core/durations.ts'
import { creation } from '../protocols/rest/rest.ts'
import { useFakeBank } from '../support/fake-bank.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { useService } from '../support/service.ts'
import { waitFor, waitUntil } from '../support/wait-for.ts'
import { data, openByKey, type ScopedBusiness, scopedBusiness } from '../thirdparty/scene.ts'
import { paymentInto, transactionsOf } from '../transactions/fixture.ts'
import { newBusiness } from '../transactions/variance/fixture.ts'

const bank = useFakeBank()
const service = useService({ BANKS: '9PSB=live' }, bank.connectors)

let business: ScopedBusiness

beforeAll(async () => {
  business = await scopedBusiness(service)
})

/** Lets the expiry of a business's accounts pass. */
const expire = (businessId: string) =>
  service.database.durablePool.query(
    `update account set expires_at = now() - interval '1 minute', end_due_at = now() - interval '1 minute'
      where business_id = $1`,
    [businessId],
  )

/** Waits until the bank has been asked to close what earlier tests have ended. */
const untilClosed = () =>
  waitFor(async () => {
    const ending = `select from account where connector = 'live'
      and (end_due_at <= now() or status <> 'ACTIVE' and end_due_at < now() + interval '1 day')`
    expect((await service.database.durablePool.query(ending)).rowCount).toBe(0)
  })

describe('opening a one-time account', () => {
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

  test('refuses options that are not valid, by their fields, and opens nothing', async () => {
    const shop = await newBusiness(service)
    const pairs = Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`k${i}`, 'v']))
    for (const [options, field] of [
      [{ amount: '0' }, 'amount'],
      [{ amount: '1.005' }, 'amount'],
      [{ amount: 1e21 }, 'amount'],
      [{ amount: true }, 'amount'],
      [{ amountRule: 'EXACT' }, 'amount'],
      [{ amount: 5, amountRule: 'SOME' }, 'amountRule'],
      [{ expiresAt: '2020-01-01T00:00:00Z' }, 'expiresAt'],
      [{ expiresAt: 'tomorrow' }, 'expiresAt'],
      [{ expiresAt: '2999-01-01T00:00:00Z' }, 'expiresAt'],
      [{ expiresAt: '2999-01-01T00:00:00Z', expiresIn: 60 }, 'expiresIn'],
      [{ expiresIn: 0 }, 'expiresIn'],
      [{ expiresIn: '60' }, 'expiresIn'],
      [{ singleUse: 'yes' }, 'singleUse'],
      [{ allowedPayers: { name: 'Ada Obi' } }, 'allowedPayers'],
      [{ allowedPayers: [{}] }, 'allowedPayers[0]'],
      [{ allowedPayers: [{ accountNumber: '1' }] }, 'allowedPayers[0].accountNumber'],
      [{ allowedPayers: [{ name: 'Ada Obi' }, { name: 5 }] }, 'allowedPayers[1].name'],
      [{ allowedPayers: [{ name: 'Mr Ada' }] }, 'allowedPayers[0].name'],
      [{ allowedPayers: Array(21).fill({ name: 'Ada Obi' }) }, 'allowedPayers'],
      [{ metadata: ['a'] }, 'metadata'],
      [{ metadata: { a: 1 } }, 'metadata'],
      [{ metadata: { ['k'.repeat(41)]: 'v' } }, 'metadata'],
      [{ metadata: { k: 'v'.repeat(201) } }, 'metadata'],
      [{ metadata: pairs }, 'metadata'],
    ] as const) {
      const answer = await shop.call('generateVirtualAccount', creation(options))
      expect(answer).toMatchObject({ status: false, code: 'validation_failed' })
      expect(answer.errors.map((each: { field: string }) => each.field)).toEqual([field])
    }
    const { accounts } = await service
      .client(AccountService)
      .listAccounts({ businessId: shop.businessId })
    expect(accounts).toEqual([])
  })
})

test('of payments at once into a single-use account, one is NONE', async () => {
  const shop = await newBusiness(service)
  const { pay, number } = await shop.open({ singleUse: true, amount: 100 })
  const [paid, batch] = await Promise.all([
    Promise.all(Array.from({ length: 20 }, () => pay(100))),
    transactionsOf(service).recordPayments({
      payments: [1, 2, 3].map((at) =>
        paymentInto(number, { sessionId: `at-once-${at}`, amountMinor: 10_000n }),
      ),
    }),
  ])
  const variances = [...paid, ...batch.results].map(({ transaction }) => transaction!.variance)
  expect(variances.filter((each) => each === Variance.NONE)).toHaveLength(1)
  expect(variances.filter((each) => each === Variance.REPEATED)).toHaveLength(22)
  expect(await shop.balance()).toMatchObject({ pendingMinor: 10_000n })
  expect((await shop.account()).terms?.usedAt).toBeDefined()
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

  test('is not early at a database whose clock is ahead, while a used account ends at once', async () => {
    const shop = await newBusiness(service)
    await shop.open({ bank: 'PROVIDUS', expiresIn: 3_600 }, 'unused')
    await shop.open({ bank: 'PROVIDUS', expiresIn: 3_600, singleUse: true }, 'used')
    const { durablePool } = service.database
    await durablePool.query(
      `update account set used_at = now() where business_id = $1 and merchant_reference = 'used'`,
      [shop.businessId],
    )
    const clock = { now: () => Date.now() + DAY_MS }
    const runtime = createTestRuntime(service.database, { clock, safeClock: systemClock })
    const endings = createEndAccounts(runtime, { bankOf: () => undefined })
    endings.start()
    onTestFinished(endings.stop)
    await shop.ended('used')
    const request = { businessId: shop.businessId, reference: 'unused' }
    const { account } = await service.client(AccountService).getAccount(request)
    expect(account!.status).toBe(AccountStatus.ACTIVE)
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

  test('closes the account at the bank, with retries until the bank has closed it', async () => {
    const shop = await newBusiness(service)
    const { number } = await shop.open({ bank: '9PSB', expiresIn: 3600 })
    const { durablePool } = service.database
    await untilClosed()
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

  test('closes an account at the bank also if its turn comes after the days in which it is listed', async () => {
    const shop = await newBusiness(service)
    const { number } = await shop.open({ bank: '9PSB', expiresIn: 3600 })
    // As after an outage of days.
    await service.database.durablePool.query(
      `update account set status = 'EXPIRED', expires_at = now() - interval '4 days',
          ended_at = now() - interval '4 days', end_due_at = now() - interval '4 days' where business_id = $1`,
      [shop.businessId],
    )
    await waitFor(() => expect(bank.closed).toContain(number))
    await untilClosed()
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
})

test('the payments of a closed account are listed for three more days, and it is closed at the bank once', async () => {
  const { durablePool } = service.database
  const { reference } = await openByKey(service, business.live, {
    reference: 'closed',
    bank: '9PSB',
  })
  const closings = () => bank.asked.filter((each) => each === 'POST close').length
  await untilClosed()
  const before = closings()
  await data(service, business.live, 'closeVirtualAccount', { reference })
  /** In how many hours it is due. */
  const dueIn = async () => {
    const text = `select extract(epoch from end_due_at - now())::float8 / 3600 as hours from account
      where reference = $1`
    return (await durablePool.query(text, [reference])).rows[0].hours
  }
  expect(await dueIn()).toBeCloseTo(72, 0)
  await durablePool.query('update account set end_due_at = now() where reference = $1', [reference])
  await waitFor(async () => expect(await dueIn()).toBeNull())
  expect(closings()).toBe(before + 1)
})

const inFuture = (ms: number) => new Date(Date.now() + ms).toISOString()
const update = (reference: string, change: object, key = business.test) =>
  service.post('updateVirtualAccount/', key, { reference, ...change })

describe('updateVirtualAccount/ of a one-time account', () => {
  test('moves its expiry, at which it then ends', async () => {
    await openByKey(service, business.test, { reference: 'x-1', expiresIn: 3_600 })
    const expiresAt = inFuture(24 * HOUR_MS)
      .slice(0, 19)
      .replace('T', ' ')
    const { terms } = await data(service, business.test, 'updateVirtualAccount', {
      reference: 'x-1',
      expiresAt,
    })
    expect(terms).toMatchObject({ expiresAt, status: 'ACTIVE' })
    await data(service, business.test, 'updateVirtualAccount', { reference: 'x-1', expiresIn: 1 })
    const ended = await waitUntil(async () => {
      const shown = await data(service, business.test, 'getVirtualAccount', { reference: 'x-1' })
      return shown.terms.status === 'EXPIRED' && shown
    })
    expect(ended.terms.expiresAt).not.toBe(expiresAt)
    const { status, body } = await update('x-1', { expiresIn: 60 })
    expect([status, body.errors]).toEqual([
      422,
      [{ field: 'expiresAt', message: 'must be absent: the account has ended' }],
    ])
  })

  test('makes a repeated creation compare with the new expiry', async () => {
    const [first, second] = [inFuture(HOUR_MS), inFuture(2 * HOUR_MS)]
    await openByKey(service, business.test, { reference: 'x-2', expiresAt: first })
    expect((await update('x-2', { expiresAt: second })).status).toBe(200)
    const repeat = async (expiresAt: string) => {
      const request = creation({ reference: 'x-2', expiresAt })
      return (await service.post('generateVirtualAccount/', business.test, request)).status
    }
    expect(await repeat(second)).toBe(200)
    expect(await repeat(first)).toBe(409)
  })

  test('refuses an expiry that is not valid, and changes nothing', async () => {
    await openByKey(service, business.test, { reference: 'x-permanent' })
    await openByKey(service, business.test, { reference: 'x-single', singleUse: true })
    for (const [reference, change, field, message] of [
      ['x-permanent', { expiresIn: 60 }, 'expiresAt', 'permanent'],
      ['x-single', { expiresAt: '2020-01-01 00:00:00' }, 'expiresAt', 'in the future'],
      ['x-single', { expiresAt: inFuture(400 * 24 * HOUR_MS) }, 'expiresAt', '366 days'],
      ['x-single', { expiresAt: 'soon' }, 'expiresAt', 'RFC 3339'],
      ['x-single', { expiresIn: 0 }, 'expiresIn', '1 to 31622400'],
      ['x-single', { expiresIn: 60, expiresAt: inFuture(HOUR_MS) }, 'expiresIn', 'together'],
    ] as const) {
      const { status, body } = await update(reference, { ...change, firstName: 'Other' })
      const errors = [{ field, message: expect.stringContaining(message) }]
      expect([status, body.errors]).toEqual([422, errors])
      const shown = await data(service, business.test, 'getVirtualAccount', { reference })
      expect(shown).toMatchObject({ meta: { firstName: 'Ada' } })
      expect(shown.terms?.expiresAt).toBeUndefined()
    }
  })

  test('at a bank that ends the account itself takes only an earlier expiry', async () => {
    const reference = 'x-live'
    await openByKey(service, business.live, { reference, expiresIn: 7_200 })
    const later = await update(reference, { expiresIn: 10_800 }, business.live)
    expect([later.status, later.body.errors]).toEqual([
      422,
      [{ field: 'expiresAt', message: expect.stringContaining('must be earlier than before') }],
    ])
    expect((await update(reference, { expiresIn: 3_600 }, business.live)).status).toBe(200)
  })

  test('at such a bank may get its first expiry, which the bank does not know', async () => {
    const reference = 'x-live-first'
    await openByKey(service, business.live, { reference, singleUse: true })
    const { status, body } = await update(reference, { expiresIn: 3_600 }, business.live)
    expect([status, body.data.terms.status]).toEqual([200, 'ACTIVE'])
    expect((await update(reference, { expiresIn: 7_200 }, business.live)).status).toBe(422)
  })
})
