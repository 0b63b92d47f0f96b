import { beforeEach, describe, expect, test } from 'vitest'
import { AccountStatus, OpeningStep } from '../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { asJson, creation, GENERATE, send, until } from '../protocols/rest/rest.ts'
import { useFakeBank } from '../support/fake-bank.ts'
import { useService } from '../support/service.ts'

const bank = useFakeBank()
const service = useService({ BANKS: '9PSB=live,PROVIDUS=live,PALMPAY=live' }, bank.connectors)

let business: { id: string; key: string }

beforeEach(async () => {
  business = await service.business()
  bank.mishaps.clear()
  bank.asked.length = 0
})

const ID = { idType: 'bvn', idNumber: '12345678901' }

async function generate(code: string, overrides: object = {}) {
  const body = JSON.stringify(creation({ bank: code, ...ID, ...overrides }))
  const answer = await send(service.httpUrl, {
    path: GENERATE,
    headers: asJson(business.key),
    body,
  })
  const { data, code: reason, errors } = JSON.parse(answer.text)
  return {
    status: answer.status,
    reason,
    errors,
    number: data?.account[0].account_number as string,
    retryAfter: Number(answer.headers['retry-after']),
  }
}

const accounts = () => service.client(AccountService)

async function pending() {
  const { accounts: found } = await accounts().listAccounts({
    businessId: business.id,
    status: AccountStatus.PENDING,
  })
  return found[0]
}

/** What the bank has opened for this business's account. */
const atBank = (reference: string) => bank.accounts.get(reference) ?? []

async function stored() {
  const { account } = await accounts().getAccount({
    businessId: business.id,
    reference: 'order-1',
  })
  return account!
}

const active = () => until(stored, (account) => account.status === AccountStatus.ACTIVE, 30_000)

/** Makes what waits for its time due now. */
const hurry = () =>
  service.database.pool.query(
    'update account set next_try_at = now() where business_id = $1 and next_try_at is not null',
    [business.id],
  )

describe('an opening whose answer was lost after the bank had opened it', () => {
  test('is repeated where the bank recognises the reference, by the service itself', async () => {
    bank.mishaps.set('POST accounts', ['after'])
    expect(await generate('9PSB')).toMatchObject({ status: 503, reason: 'bank_unavailable' })
    expect((await pending())!.opening).toMatchObject({ nextStep: OpeningStep.REPEAT, attempts: 1 })
    await hurry()
    const account = await active()
    expect(atBank(account.reference)).toEqual([account.accountNumber])
    const { events } = await service.client(EventService).listEvents({ businessId: business.id })
    expect(events.map((event) => event.kind)).toEqual(['ACCOUNT_CREATED'])
    expect((await generate('9PSB')).number).toBe(account.accountNumber)
  })

  test('is asked after where the bank can be asked, and nothing is opened twice', async () => {
    bank.mishaps.set('POST accounts', ['after'])
    expect((await generate('PALMPAY')).status).toBe(503)
    const { opening, reference } = (await pending())!
    expect(opening).toMatchObject({ nextStep: OpeningStep.QUERY, cause: expect.any(String) })
    expect(opening!.nextTryAt).toBeDefined()
    const answer = await generate('PALMPAY')
    expect(answer).toMatchObject({ status: 200, number: atBank(reference)[0] })
    expect(bank.asked).toEqual(['POST accounts', 'GET accounts'])
  })

  test('waits for a person where neither is possible, however often it is asked for', async () => {
    bank.mishaps.set('POST accounts', ['after'])
    expect((await generate('PROVIDUS')).status).toBe(503)
    for (let i = 0; i < 3; i++) {
      const answer = await generate('PROVIDUS')
      expect(answer).toMatchObject({ status: 503, reason: 'bank_unavailable' })
      expect(answer.retryAfter).toBeGreaterThan(0)
    }
    expect(bank.asked).toEqual(['POST accounts'])
    const { opening } = (await pending())!
    expect(opening).toMatchObject({ nextStep: OpeningStep.PERSON })
    expect(opening!.nextTryAt).toBeUndefined()
  })
})

describe('an opening that the bank never got', () => {
  test('is asked for anew, once the bank says that it opened nothing', async () => {
    bank.mishaps.set('POST accounts', ['before'])
    expect((await generate('PALMPAY')).status).toBe(503)
    const answer = await generate('PALMPAY')
    expect(answer.status).toBe(200)
    expect(bank.asked).toEqual(['POST accounts', 'GET accounts', 'POST accounts'])
    expect(atBank((await stored()).reference)).toEqual([answer.number])
  })

  test('waits for whoever wants it, when the service finds that out by itself', async () => {
    bank.mishaps.set('POST accounts', ['before'])
    expect((await generate('PALMPAY')).status).toBe(503)
    await hurry()
    const account = await until(pending, (found) => found!.opening!.nextStep === OpeningStep.FREE)
    expect(atBank(account!.reference)).toEqual([])
    expect(account!.opening!.nextTryAt).toBeUndefined()
    expect((await generate('PALMPAY')).status).toBe(200)
  })
})

test('a bank that falls silent again keeps what was unclear unclear', async () => {
  bank.mishaps.set('POST accounts', ['after', 'before'])
  bank.mishaps.set('GET accounts', [500])
  await generate('9PSB')
  expect((await generate('9PSB')).status).toBe(503)
  expect((await pending())!.opening!.nextStep).toBe(OpeningStep.REPEAT)
  await generate('PALMPAY', { reference: 'order-2' })
  expect((await generate('9PSB')).status).toBe(200)
})

test('a refusal of the customer frees the reference', async () => {
  expect(await generate('9PSB', { phone: '08000000009' })).toMatchObject({
    status: 422,
    errors: [{ field: 'phone', message: 'is not known' }],
  })
  expect((await generate('9PSB')).status).toBe(200)
})

test('a number that is another account’s harms that opening alone', async () => {
  const taken = (await generate('9PSB', { reference: 'first' })).number
  const others = Array.from({ length: 20 }, (_, index) =>
    generate('9PSB', { reference: `n-${index}` }),
  )
  bank.nextNumber = taken
  const answers = await Promise.all([generate('9PSB'), ...others])
  expect(answers.filter((answer) => answer.status === 200)).toHaveLength(20)
  const account = (await pending())!
  expect(account.opening).toMatchObject({
    nextStep: OpeningStep.PERSON,
    cause: expect.stringContaining(taken),
  })
})

test('a number that is none needs a person', async () => {
  bank.nextNumber = '12\u000034'
  expect((await generate('9PSB')).status).toBe(503)
  expect((await pending())!.opening!.cause).toContain('12 34')
})

describe('an opening whose process died', () => {
  /** What it leaves behind: a claim that is over, and no result. */
  async function die(code: string) {
    bank.mishaps.set('POST accounts', ['after'])
    await generate(code)
    await service.database.pool.query(
      `update account set opening_state = 'ASKING', claimed_until = now(), next_try_at = now()
        where business_id = $1`,
      [business.id],
    )
  }

  test.each(['9PSB', 'PALMPAY'])('is ended by the service itself: %s', async (code) => {
    await die(code)
    const account = await active()
    expect(atBank(account.reference)).toEqual([account.accountNumber])
  })

  test('needs a person where the bank cannot be asked again', async () => {
    await die('PROVIDUS')
    const account = await until(pending, (found) => found!.opening!.nextStep === OpeningStep.PERSON)
    expect(account!.opening!.cause).toContain('died')
    expect(bank.asked).toEqual(['POST accounts'])
  })
})

describe('a person resolves an opening', () => {
  const resolve = (
    resolution: Parameters<ReturnType<typeof accounts>['resolveAccount']>[0]['resolution'],
  ) =>
    accounts().resolveAccount({
      businessId: business.id,
      reference: 'order-1',
      ...(resolution && { resolution }),
    })

  beforeEach(async () => {
    bank.mishaps.set('POST accounts', ['after'])
    await generate('PROVIDUS')
  })

  test('with the number that the bank gave', async () => {
    const { reference } = (await pending())!
    const accountNumber = atBank(reference)[0]!
    const { account } = await resolve({ case: 'opened', value: { accountNumber } })
    expect(account).toMatchObject({ status: AccountStatus.ACTIVE, accountNumber })
    expect(account!.accountName).toMatch(/\/Ada Obi$/)
    expect(await generate('PROVIDUS')).toMatchObject({ status: 200, number: accountNumber })
    const { events } = await service.client(EventService).listEvents({ businessId: business.id })
    expect(events.map((event) => event.kind)).toEqual(['ACCOUNT_CREATED'])
  })

  test('as not opened: the reference is free', async () => {
    expect(await resolve({ case: 'notOpened', value: true })).toMatchObject({})
    expect((await generate('PROVIDUS', { lastName: 'Ojo' })).status).toBe(200)
  })

  test('not with a number that is taken', async () => {
    const { number } = await generate('PROVIDUS', { reference: 'order-2' })
    const call = resolve({ case: 'opened', value: { accountNumber: number } })
    await expect(call).rejects.toThrow(/opened.accountNumber|Invalid/)
    expect((await pending())!.opening!.nextStep).toBe(OpeningStep.PERSON)
  })
})

describe('closing an account', () => {
  const close = () => accounts().closeAccount({ businessId: business.id, reference: 'order-1' })

  test('closes it at a bank that can, once, and tells of it', async () => {
    const { number } = await generate('9PSB')
    expect((await close()).account!.status).toBe(AccountStatus.CLOSED)
    expect(bank.closed).toContain(number)
    expect((await close()).account!.status).toBe(AccountStatus.CLOSED)
    const { events } = await until(
      () => service.client(EventService).listEvents({ businessId: business.id }),
      (found) => found.events.length === 2,
    )
    expect(events.map((event) => event.kind)).toEqual(['ACCOUNT_CREATED', 'ACCOUNT_CLOSED'])
    expect(bank.asked.filter((what) => what === 'POST close')).toHaveLength(1)
  })

  test('leaves it open when the bank does not answer', async () => {
    await generate('9PSB')
    bank.mishaps.set('POST close', [500])
    await expect(close()).rejects.toMatchObject({ code: 14 })
    expect((await stored()).status).toBe(AccountStatus.ACTIVE)
    expect((await close()).account!.status).toBe(AccountStatus.CLOSED)
  })

  test('blocks it here where the bank cannot', async () => {
    await generate('PROVIDUS')
    expect((await close()).account!.status).toBe(AccountStatus.CLOSED)
    expect(bank.asked).toEqual(['POST accounts'])
  })
})
