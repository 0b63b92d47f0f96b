import type { ConnectError } from '@connectrpc/connect'
import { beforeEach, describe, expect, test } from 'vitest'
import { BadRequestSchema } from '../../gen/google/rpc/error_details_pb.ts'
import { AccountStatus, OpeningState } from '../../gen/inflow/account/v1/account_pb.ts'
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
  const response = await send(service.httpUrl, {
    path: GENERATE,
    headers: asJson(business.key),
    body,
  })
  const { data, code: reason, errors, message } = JSON.parse(response.text)
  return {
    status: response.status,
    reason,
    errors,
    message,
    number: data?.account[0].account_number as string,
    retryAfter: response.headers['retry-after'],
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

/** The account numbers that the bank has opened under a reference. */
const atBank = (reference: string) => bank.accounts.get(reference) ?? []

async function stored() {
  const { account } = await accounts().getAccount({
    businessId: business.id,
    reference: 'order-1',
  })
  return account!
}

const active = () => until(stored, (account) => account.status === AccountStatus.ACTIVE)

/** Makes scheduled retries due now. */
const makeDue = () =>
  service.database.durablePool.query(
    'update account set next_try_at = now() where business_id = $1 and next_try_at is not null',
    [business.id],
  )

/** The service would try again by itself in five seconds. */
const delayTries = () =>
  service.database.durablePool.query(
    "update account set next_try_at = now() + interval '1 hour' where next_try_at is not null",
  )

const expectOneEvent = () =>
  expect
    .poll(async () => {
      const request = { businessId: business.id }
      const { events } = await service.client(EventService).listEvents(request)
      return events.map((event) => event.kind)
    })
    .toEqual(['ACCOUNT_CREATED'])

describe('an opening whose response was lost after the bank opened the account', () => {
  test('is retried by the service if the bank recognises the reference', async () => {
    bank.mishaps.set('POST accounts', ['after'])
    expect(await generate('9PSB')).toMatchObject({ status: 503, reason: 'bank_unavailable' })
    expect((await pending())!.opening).toMatchObject({ state: OpeningState.RETRYING, attempts: 1 })
    await makeDue()
    const account = await active()
    expect(atBank(account.reference)).toEqual([account.accountNumber])
    await expectOneEvent()
    expect((await generate('9PSB')).number).toBe(account.accountNumber)
  })

  test('is requeried if the bank supports it, and no second account is opened', async () => {
    bank.mishaps.set('POST accounts', ['after'])
    expect((await generate('PALMPAY')).status).toBe(503)
    const { opening, reference } = (await pending())!
    expect(opening).toMatchObject({ state: OpeningState.REQUERYING, cause: expect.any(String) })
    expect(opening!.nextTryAt).toBeDefined()
    const response = await generate('PALMPAY')
    expect(response).toMatchObject({ status: 200, number: atBank(reference)[0] })
    expect(bank.asked).toEqual(['POST accounts', 'GET accounts'])
  })

  test('goes to manual review if neither is possible, however often it is requested', async () => {
    bank.mishaps.set('POST accounts', ['after'])
    for (let i = 0; i < 4; i++) {
      const response = await generate('PROVIDUS')
      expect(response).toMatchObject({ status: 409, reason: 'account_in_review' })
      // A repeat would find the same, so none is advised.
      expect([response.retryAfter, response.message]).toEqual([
        undefined,
        expect.stringMatching(/operator is asking it; do not repeat the request/),
      ])
    }
    expect(bank.asked).toEqual(['POST accounts'])
    const { opening } = (await pending())!
    expect(opening).toMatchObject({ state: OpeningState.MANUAL_REVIEW })
    expect(opening!.nextTryAt).toBeUndefined()
  })
})

describe('an opening that the bank never received', () => {
  test('waits for the next request if the service learns that nothing was opened', async () => {
    bank.mishaps.set('POST accounts', ['before'])
    expect((await generate('PALMPAY')).status).toBe(503)
    await makeDue()
    const account = await until(
      pending,
      (found) => found!.opening!.state === OpeningState.RETRYABLE,
    )
    expect(atBank(account!.reference)).toEqual([])
    expect(account!.opening!.nextTryAt).toBeUndefined()
    expect((await generate('PALMPAY')).status).toBe(200)
  })
})

test('an unavailable bank leaves an unclear result unclear', async () => {
  bank.mishaps.set('POST accounts', ['after', 'before'])
  bank.mishaps.set('GET accounts', [500])
  await generate('9PSB')
  await delayTries()
  expect((await generate('9PSB')).status).toBe(503)
  expect((await pending())!.opening!.state).toBe(OpeningState.RETRYING)
  await generate('PALMPAY', { reference: 'order-2' })
  expect((await generate('9PSB')).status).toBe(200)
})

test('a number that belongs to another account fails only that opening', async () => {
  const taken = (await generate('9PSB', { reference: 'first' })).number
  const others = Array.from({ length: 20 }, (_, index) =>
    generate('9PSB', { reference: `n-${index}` }),
  )
  bank.nextNumber = taken
  const responses = await Promise.all([generate('9PSB'), ...others])
  expect(responses.filter((response) => response.status === 200)).toHaveLength(20)
  const account = (await pending())!
  expect(account.opening).toMatchObject({
    state: OpeningState.MANUAL_REVIEW,
    cause: expect.stringContaining(taken),
  })
})

describe('an opening whose process died', () => {
  /** Leaves an expired claim and no result, as a process that died would. */
  async function leaveUnresolved(code: string) {
    bank.mishaps.set('POST accounts', ['after'])
    await generate(code)
    await service.database.durablePool.query(
      `update account set opening_state = 'CREATING', claimed_until = now(), next_try_at = now()
        where business_id = $1`,
      [business.id],
    )
  }

  test.each(['9PSB', 'PALMPAY'])('is resolved by the service: %s', async (code) => {
    await leaveUnresolved(code)
    const account = await active()
    expect(atBank(account.reference)).toEqual([account.accountNumber])
  })

  test('goes to manual review if the bank cannot be asked again', async () => {
    await leaveUnresolved('PROVIDUS')
    const account = await until(
      pending,
      (found) => found!.opening!.state === OpeningState.MANUAL_REVIEW,
    )
    expect(account!.opening!.cause).toContain('died')
    expect(bank.asked).toEqual(['POST accounts'])
  })
})

describe('an operator resolves an opening', () => {
  const shown = async () => {
    const body = { reference: 'order-1' }
    const { status, body: answer } = await service.post('getVirtualAccount/', business.key, body)
    return { status, code: answer.code, account: answer.data?.account }
  }
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

  test('with the number that the bank reports', async () => {
    const { reference } = (await pending())!
    expect(await shown()).toMatchObject({ status: 200, account: [] })
    const accountNumber = atBank(reference)[0]!
    const { account } = await resolve({ case: 'opened', value: { accountNumber } })
    expect(account).toMatchObject({ status: AccountStatus.ACTIVE, accountNumber })
    expect(account!.accountName).toMatch(/\/Ada Obi$/)
    expect(await shown()).toMatchObject({ account: [{ account_number: accountNumber }] })
    expect(await generate('PROVIDUS')).toMatchObject({ status: 200, number: accountNumber })
    await expectOneEvent()
  })

  test('but not with a number that belongs to another account', async () => {
    const { number } = await generate('PROVIDUS', { reference: 'order-2' })
    const call = resolve({ case: 'opened', value: { accountNumber: number } })
    await expect(call).rejects.toThrow(/opened.accountNumber|Invalid/)
    expect((await pending())!.opening!.state).toBe(OpeningState.MANUAL_REVIEW)
  })
})

describe('a bank that can be asked', () => {
  const faultOf = (accountNumber: string) =>
    accounts()
      .resolveAccount({
        businessId: business.id,
        reference: 'order-1',
        resolution: { case: 'opened', value: { accountNumber } },
      })
      .then(
        () => 'resolved',
        (error: ConnectError) => {
          const [fields] = error.findDetails(BadRequestSchema)
          return fields?.fieldViolations.map(({ description }) => description) ?? error.rawMessage
        },
      )

  test('confirms the number that an operator names', async () => {
    bank.mishaps.set('POST accounts', ['after'])
    await generate('PALMPAY')
    await delayTries()
    const [number] = atBank((await pending())!.reference)
    bank.mishaps.set('GET accounts', [500])
    expect(await faultOf(number!)).toMatch(/^The bank does not confirm the account: /)
    expect(await faultOf('3999999999')).toEqual([
      'is not the number that the bank has for this account',
    ])
    expect((await pending())!.accountNumber).toBe('')
    expect(await faultOf(number!)).toBe('resolved')
    expect(await stored()).toMatchObject({ status: AccountStatus.ACTIVE, accountNumber: number })
  })
})

describe('closing an account', () => {
  const close = () => accounts().closeAccount({ businessId: business.id, reference: 'order-1' })

  test('closes it once at a bank that supports closing, and publishes an event', async () => {
    const { number } = await generate('9PSB')
    expect((await close()).account!.status).toBe(AccountStatus.CLOSED)
    expect(bank.closed).toContain(number)
    expect((await close()).account!.status).toBe(AccountStatus.CLOSED)
    const { events } = await until(
      () => service.client(EventService).listEvents({ businessId: business.id }),
      (found) => found.events.length === 2,
    )
    expect(events.map((event) => event.kind)).toEqual(['ACCOUNT_CREATED', 'ACCOUNT_CLOSED'])
    expect(bank.asked.filter((request) => request === 'POST close')).toHaveLength(1)
  })

  test('leaves it open if the bank does not respond', async () => {
    await generate('9PSB')
    bank.mishaps.set('POST close', [500])
    await expect(close()).rejects.toMatchObject({ code: 14 })
    expect((await stored()).status).toBe(AccountStatus.ACTIVE)
    expect((await close()).account!.status).toBe(AccountStatus.CLOSED)
  })
})
