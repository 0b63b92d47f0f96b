import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { BankCode } from '../../src/banks/bank.ts'
import { type FakeBanks, startFakeBanks } from '../../src/banks/fake/start-fake-banks.ts'
import { runHere } from '../cli/run-inflow.ts'
import { asJson, creation, GENERATE, send } from '../protocols/rest/rest.ts'
import { ADMIN_TOKEN, useService } from '../support/service.ts'
import { WAIT_LIMIT_MS } from '../support/wait-for.ts'

const CODES = ['9PSB', 'SAFEHAVEN', 'PROVIDUS', 'PALMPAY'] as const

let banks: FakeBanks
const environment: NodeJS.ProcessEnv = {}

beforeAll(async () => {
  banks = await startFakeBanks({ port: 0, serviceUrl: 'http://127.0.0.1:1' })
  Object.assign(environment, banks.environment)
  for (const code of CODES) environment[`BANK_${code}_TIMEOUT_MS`] = '1000'
})

const service = useService(environment)

afterAll(() => banks?.close())

let business: { id: string; key: string }

beforeEach(async () => {
  business = await service.business()
})

async function generate(bank: BankCode, overrides: object = {}) {
  const identity = { idType: 'bvn', idNumber: '22222222222' }
  const response = await send(service.httpUrl, {
    path: GENERATE,
    headers: asJson(business.key),
    body: JSON.stringify(creation({ bank, ...identity, ...overrides })),
  })
  const { data, code, errors } = JSON.parse(response.text)
  return {
    status: response.status,
    code,
    errors,
    number: data?.account[0].account_number as string,
    retryAfter: Number(response.headers['retry-after']),
  }
}

/** Makes the next openings at a bank fail; `fault` is one that the fake bank knows. */
const fail = (bank: BankCode, fault: string, times = 1) =>
  (banks[bank].faults as { add(operation: 'create', fault: string, times: number): void }).add(
    'create',
    fault,
    times,
  )

/** The numbers of all accounts that a bank has opened, the newest last. */
const numbersAt = (bank: BankCode) => [...banks[bank].accounts.keys()]

async function resolve(...resolution: string[]) {
  const result = await runHere(
    ['account', 'resolve', 'order-1', '--business', business.id, '--yes', ...resolution],
    { INFLOW_GRPC_URL: service.grpcUrl, INFLOW_TOKEN: ADMIN_TOKEN },
  )
  expect(result).toMatchObject({ code: 0 })
}

/** A time-out takes a second: one bank that recognises our reference, and one that does not. */
const faultsOf = (bank: BankCode) => [
  ...['cut', '500', 'page'],
  ...(bank === '9PSB' || bank === 'PROVIDUS' ? ['hang'] : []),
]

describe.each(CODES)('%s', (bank) => {
  let before: number

  // A success resets the failures that earlier tests caused at the bank.
  beforeEach(async () => {
    expect((await generate(bank, { reference: 'first' })).status).toBe(200)
    before = numbersAt(bank).length
  })

  const opened = () => numbersAt(bank).slice(before)
  // Only 9PSB recognises our reference, so elsewhere an operator has to ask.
  const unclear =
    bank === '9PSB'
      ? { status: 503, code: 'bank_unavailable' }
      : { status: 409, code: 'account_in_review' }
  const expectManualReview = async () => {
    const response = await generate(bank)
    expect(response).toMatchObject({ status: 409, code: 'account_in_review' })
    expect(response.retryAfter).toBeNaN()
  }

  test.each(faultsOf(bank))('opens one account if the request was lost (%s)', async (fault) => {
    fail(bank, fault)
    expect(await generate(bank)).toMatchObject(unclear)
    expect(opened()).toEqual([])
    if (bank !== '9PSB') {
      await expectManualReview()
      expect(opened()).toEqual([])
      await resolve('--not-opened')
    }
    const response = await generate(bank)
    expect([response.status, opened()]).toEqual([200, [response.number]])
  })

  test.each(faultsOf(bank))(
    'opens no second account if the response was lost (%s)',
    async (fault) => {
      fail(bank, `${fault} after`)
      expect(await generate(bank)).toMatchObject(unclear)
      const [number] = opened()
      expect(number).toMatch(/^\d{10}$/)
      // 9PSB receives the same reference again and responds that it was used.
      await expectManualReview()
      await expectManualReview()
      await resolve('--account-number', number!)
      expect(await generate(bank)).toMatchObject({ status: 200, number })
      expect(opened()).toEqual([number])
    },
  )

  test('opens one account for 200 copies of one request at once', async () => {
    const responses = await Promise.all(Array.from({ length: 200 }, () => generate(bank)))
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]))
    expect(opened()).toEqual([responses[0]!.number])
    expect(new Set(responses.map(({ number }) => number)).size).toBe(1)
  })
})

test.each([
  ['9PSB', () => banks['9PSB'].expireTokens()],
  ['SAFEHAVEN', () => banks.SAFEHAVEN.expireTokens()],
] as const)('%s: renews a token that expires early', async (bank, expire) => {
  await generate(bank, { reference: 'first' })
  expire()
  const before = numbersAt(bank).length
  expect((await generate(bank)).status).toBe(200)
  expect(numbersAt(bank)).toHaveLength(before + 1)
})

test.each([
  ['PROVIDUS', '03'],
  ['PROVIDUS', '11'],
  ['PALMPAY', 'code OPEN_GW_000020'],
  ['SAFEHAVEN', 'statusCode 400'],
] as const)(
  '%s: opens the account after clear refusals (%s) as on the first attempt',
  async (bank, fault) => {
    const before = numbersAt(bank).length
    fail(bank, fault, 3)
    for (let i = 0; i < 3; i++) {
      const refused = await generate(bank)
      if (fault === '03') expect(refused).toMatchObject({ status: 503, retryAfter: 5 })
      else expect(refused).toMatchObject({ status: 409, code: 'bank_refused' })
    }
    const { status, number } = await generate(bank)
    expect([status, numbersAt(bank).slice(before)]).toEqual([200, [number]])
  },
)

test('SAFEHAVEN: an account with the customer’s own identity needs all of its parts', async () => {
  const verification = { identityId: 'customer-1', otp: '1234' }
  const before = numbersAt('SAFEHAVEN').length
  expect(await generate('SAFEHAVEN', { ...verification, identityId: '' })).toMatchObject({
    status: 422,
    errors: [{ field: 'identityId', message: 'is required with otp' }],
  })
  expect(await generate('SAFEHAVEN', { ...verification, idNumber: '' })).toMatchObject({
    status: 422,
    errors: [{ field: 'idNumber', message: 'is required with otp' }],
  })
  const { status, number } = await generate('SAFEHAVEN', verification)
  expect([status, numbersAt('SAFEHAVEN').slice(before)]).toEqual([200, [number]])
  // The code was used; a repeat has the account all the same, and a new account does not.
  expect(await generate('SAFEHAVEN', verification)).toMatchObject({ status: 200, number })
  expect(await generate('SAFEHAVEN', { ...verification, reference: 'order-2' })).toMatchObject({
    status: 422,
    errors: [{ field: 'otp', message: 'was not accepted by the bank' }],
  })
})

test.each(['00012345678', '11112345678'])(
  'PALMPAY: a rejected identity number %s is reported as an invalid field',
  async (idNumber) => {
    expect(await generate('PALMPAY', { idNumber })).toMatchObject({
      status: 422,
      errors: [{ field: 'idNumber', message: expect.any(String) }],
    })
    expect((await generate('PALMPAY')).status).toBe(200)
  },
)

test('an unresponsive bank is not asked for a while, and no result becomes unclear', async () => {
  await Promise.all(
    CODES.map(async (bank) => {
      fail(bank, 'cut', 5)
      for (let i = 0; i < 5; i++) await generate(bank, { reference: `${bank}-${i}` })
      const asked = banks[bank].requests.create
      const response = await generate(bank, { reference: bank })
      expect(response).toMatchObject({ status: 503, code: 'bank_unavailable', retryAfter: 5 })
      expect(banks[bank].requests.create).toBe(asked)
      const before = numbersAt(bank).length
      const again = await vi.waitFor(
        async () => {
          const answer = await generate(bank, { reference: bank })
          expect(answer.status).toBe(200)
          return answer
        },
        { timeout: WAIT_LIMIT_MS, interval: 500 },
      )
      expect(numbersAt(bank).slice(before)).toContain(again.number)
    }),
  )
})
