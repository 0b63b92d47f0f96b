import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { BankCode } from '../../src/banks/bank.ts'
import { type FakeBanks, startFakeBanks } from '../../src/fake-banks/start-fake-banks.ts'
import { runHere } from '../cli/run-inflow.ts'
import { asJson, creation, GENERATE, send, until } from '../protocols/rest/rest.ts'
import { ADMIN_TOKEN, useService } from '../support/service.ts'

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
  const answer = await send(service.httpUrl, {
    path: GENERATE,
    headers: asJson(business.key),
    body: JSON.stringify(creation({ bank, ...identity, ...overrides })),
  })
  const { data, code, errors } = JSON.parse(answer.text)
  return {
    status: answer.status,
    code,
    errors,
    number: data?.account[0].account_number as string,
    retryAfter: Number(answer.headers['retry-after']),
  }
}

/** The next openings at a bank go wrong; `fault` is one that it knows. */
const fail = (bank: BankCode, fault: string, times = 1) =>
  (banks[bank].faults as { add(operation: 'create', fault: string, times: number): void }).add(
    'create',
    fault,
    times,
  )

/** The numbers of all accounts in a bank's books, the newest last. */
const inBooks = (bank: BankCode) => [...banks[bank].accounts.keys()]

async function resolve(...end: string[]) {
  const result = await runHere(
    ['account', 'resolve', 'order-1', '--business', business.id, ...end],
    { INFLOW_GRPC_URL: service.grpcUrl, INFLOW_TOKEN: ADMIN_TOKEN },
  )
  expect(result).toMatchObject({ code: 0 })
}

const FAULTS = ['hang', 'cut', '500', 'page']

describe.each(CODES)('%s', (bank) => {
  let before: number

  // A success, so that what other tests broke is not held against the bank.
  beforeEach(async () => {
    expect((await generate(bank, { reference: 'first' })).status).toBe(200)
    before = inBooks(bank).length
  })

  const opened = () => inBooks(bank).slice(before)
  const needsPerson = async () => {
    const answer = await generate(bank)
    expect(answer).toMatchObject({ status: 503, code: 'bank_unavailable', retryAfter: 300 })
  }

  test.each(FAULTS)(
    'lost before it was opened (%s): it is opened once in the end',
    async (fault) => {
      fail(bank, fault)
      expect(await generate(bank)).toMatchObject({ status: 503, code: 'bank_unavailable' })
      expect(opened()).toEqual([])
      if (bank === 'PROVIDUS' || bank === 'SAFEHAVEN') {
        await needsPerson()
        expect(opened()).toEqual([])
        await resolve('--not-opened')
      }
      const answer = await generate(bank)
      expect([answer.status, opened()]).toEqual([200, [answer.number]])
    },
  )

  test.each(FAULTS)('lost after it was opened (%s): none is opened beside it', async (fault) => {
    fail(bank, `${fault} after`)
    expect(await generate(bank)).toMatchObject({ status: 503, code: 'bank_unavailable' })
    const [number] = opened()
    expect(number).toMatch(/^\d{10}$/)
    if (bank !== 'PALMPAY') {
      // 9PSB is asked with the same reference, and says that it was used.
      await needsPerson()
      await needsPerson()
      await resolve('--account-number', number!)
    }
    expect(await generate(bank)).toMatchObject({ status: 200, number })
    expect(opened()).toEqual([number])
  })

  test('200 copies of one request at once open one account', async () => {
    const answers = await Promise.all(Array.from({ length: 200 }, () => generate(bank)))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    expect(opened()).toEqual([answers[0]!.number])
    expect(new Set(answers.map(({ number }) => number)).size).toBe(1)
  })
})

test.each([
  ['9PSB', () => banks['9PSB'].expireTokens()],
  ['SAFEHAVEN', () => banks.SAFEHAVEN.expireTokens()],
] as const)(
  '%s: a token that is over before its time is renewed on the way',
  async (bank, expire) => {
    await generate(bank, { reference: 'first' })
    expire()
    const before = inBooks(bank).length
    expect((await generate(bank)).status).toBe(200)
    expect(inBooks(bank)).toHaveLength(before + 1)
  },
)

test.each([
  ['PROVIDUS', '03'],
  ['PALMPAY', 'code OPEN_GW_000012'],
  ['SAFEHAVEN', 'statusCode 400'],
] as const)(
  '%s: after clear refusals (%s) it is opened as if for the first time',
  async (bank, fault) => {
    const before = inBooks(bank).length
    fail(bank, fault, 3)
    for (let i = 0; i < 3; i++) {
      expect(await generate(bank)).toMatchObject({ status: 503, retryAfter: 5 })
    }
    const { status, number } = await generate(bank)
    expect([status, inBooks(bank).slice(before)]).toEqual([200, [number]])
  },
)

test.each(['00012345678', '11112345678'])(
  'PALMPAY: an identity %s that it refuses is the caller’s fault',
  async (idNumber) => {
    expect(await generate('PALMPAY', { idNumber })).toMatchObject({
      status: 422,
      errors: [{ field: 'idNumber', message: expect.any(String) }],
    })
    expect((await generate('PALMPAY')).status).toBe(200)
  },
)

test('a bank that does not answer is left alone for a while, and nothing is unclear by it', async () => {
  await Promise.all(
    CODES.map(async (bank) => {
      fail(bank, 'cut', 5)
      for (let i = 0; i < 5; i++) await generate(bank, { reference: `${bank}-${i}` })
      const asked = banks[bank].requests.create
      const answer = await generate(bank, { reference: bank })
      expect(answer).toMatchObject({ status: 503, code: 'bank_unavailable', retryAfter: 5 })
      expect(banks[bank].requests.create).toBe(asked)
      const before = inBooks(bank).length
      const again = await until(
        () => generate(bank, { reference: bank }),
        ({ status }) => status === 200,
        30_000,
      )
      expect(inBooks(bank).slice(before)).toContain(again.number)
    }),
  )
}, 60_000)
