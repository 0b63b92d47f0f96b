import fc from 'fast-check'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { BankPayment, Requery } from '../../src/banks/bank.ts'
import type { ServedBank } from '../../src/banks/serve-banks.ts'
import { AMOUNT_MINOR_MAX } from '../../src/core/money.ts'
import { confirmPayment } from '../../src/notifications/confirm-payment.ts'

const PAID_AT_MS = Date.UTC(2026, 10, 20)
const NO_PAYER = { name: '', accountNumber: '', bankCode: '', bankName: '' }
const PAYER = { name: 'Ngozi', accountNumber: '0123456789', bankCode: '000013', bankName: 'GTBank' }
const reported: BankPayment = {
  bankKey: 'key-1',
  sessionId: 'session-1',
  accountNumber: '5010000001',
  amountMinor: 150_050n,
  paidAtMs: PAID_AT_MS,
  payer: PAYER,
  narration: 'rent',
}

type Kind = 'payment' | 'reversal'

/** Confirms with a bank that responds so. @returns the result, and what the bank was asked */
async function confirm(
  payment: BankPayment,
  response: Requery = { kind: 'confirmed', payment },
  { kind = 'payment' as Kind, bound = false, requery = true, callTimeoutMs = 10_000 } = {},
) {
  const asked: BankPayment[] = []
  const connector = {
    requery: async (each: BankPayment) => {
      asked.push(each)
      return response
    },
  }
  const served = { connector, requery, callTimeoutMs, allowedCidrs: [] } as unknown as ServedBank
  return { result: await confirmPayment(served, { kind, payment, bound }, { bank: '9PSB' }), asked }
}

describe('whether the bank is asked', () => {
  test('for as long as its settings allow', async () => {
    const timeouts = vi.spyOn(AbortSignal, 'timeout')
    onTestFinished(() => timeouts.mockRestore())
    await confirm(reported, undefined, { callTimeoutMs: 45_000 })
    expect(timeouts).toHaveBeenLastCalledWith(45_000)
  })

  test.each([
    [true, true, true],
    [true, false, true],
    [false, false, true],
    [false, true, false],
  ])('with requery %s and a signature over every field %s: %s', async (requery, bound, isAsked) => {
    const { result, asked } = await confirm(reported, undefined, { requery, bound })
    expect(asked).toEqual(isAsked ? [reported] : [])
    expect(result).toEqual({ kind: 'paid', payment: reported })
  })

  test('a signed reversal is one without asking', async () => {
    const options = { kind: 'reversal', requery: false, bound: true } as const
    const { result } = await confirm(reported, undefined, options)
    expect(result).toEqual({ kind: 'reversed', payment: reported })
  })
})

describe('what the bank responds decides', () => {
  test.each([
    ['payment', 'confirmed', 'paid'],
    ['payment', 'reversed', 'reversed'],
    ['reversal', 'confirmed', 'paid'],
    ['reversal', 'reversed', 'reversed'],
  ] as const)('a %s that is %s is %s', async (kind, response, confirmation) => {
    const { result } = await confirm(reported, { kind: response, payment: reported }, { kind })
    expect(result).toEqual({ kind: confirmation, payment: reported })
  })

  test.each(['denied', 'unknown'] as const)('%s is passed on with its cause', async (kind) => {
    const response = { kind, cause: 'because' }
    expect((await confirm(reported, response)).result).toEqual(response)
  })
})

describe('a response that differs from the report', () => {
  const other = {
    bankKey: 'key-2',
    sessionId: 'session-2',
    accountNumber: '5010000002',
    amountMinor: 1n,
  }
  const names = {
    bankKey: 'key',
    accountNumber: 'account number',
    amountMinor: 'amount',
    sessionId: 'session',
  }
  type Field = keyof typeof names

  test('is a conflict that names what differs, whatever it is', () =>
    fc.assert(
      fc.asyncProperty(fc.subarray(Object.keys(names) as Field[]), async (fields) => {
        const changed = Object.fromEntries(fields.map((field) => [field, other[field]]))
        const payment = { ...reported, ...changed }
        const { result } = await confirm(reported, { kind: 'confirmed', payment })
        const cause = `the report and the requery response differ in: ${fields.map((field) => names[field]).join(', ')}`
        expect(result).toEqual(
          fields.length === 0 ? { kind: 'paid', payment } : { kind: 'conflict', cause },
        )
      }),
    ))

  test('only because one of them has no session is none, and the known session is taken', async () => {
    const keyed = { ...reported, sessionId: reported.bankKey }
    const ofSession = { kind: 'paid', payment: reported }
    expect((await confirm(reported, { kind: 'confirmed', payment: keyed })).result).toEqual(
      ofSession,
    )
    expect((await confirm(keyed, { kind: 'confirmed', payment: reported })).result).toEqual(
      ofSession,
    )
    expect((await confirm(keyed)).result).toEqual({ kind: 'paid', payment: keyed })
  })

  test('in what only describes the payment is taken, and what it lacks is taken from the report', async () => {
    const payer = { name: 'N. Okafor', accountNumber: '999', bankCode: '1', bankName: 'UBA' }
    const described = { ...reported, payer, narration: 'fees', paidAtMs: PAID_AT_MS + 1 }
    expect((await confirm(reported, { kind: 'confirmed', payment: described })).result).toEqual({
      kind: 'paid',
      payment: described,
    })
    const bare = { ...reported, payer: NO_PAYER, narration: '', paidAtMs: undefined }
    expect((await confirm(reported, { kind: 'confirmed', payment: bare })).result).toEqual({
      kind: 'paid',
      payment: reported,
    })
  })
})

describe('a payment that cannot be recorded', () => {
  const cases: [string, Partial<BankPayment>, string][] = [
    ['no key', { bankKey: '' }, 'the key of the payment is missing or too long'],
    ['an unprintable key', { bankKey: '\0' }, 'the key of the payment is missing or too long'],
    ['a long key', { bankKey: 'k'.repeat(201) }, 'the key of the payment is missing or too long'],
    ['no session', { sessionId: '' }, 'the session id has an unknown format'],
    ['a session of spaces', { sessionId: 'a b' }, 'the session id has an unknown format'],
    ['nine digits', { accountNumber: '501000000' }, 'the account number does not have ten digits'],
    ['no amount', { amountMinor: 0n }, 'the amount is out of range'],
    ['a negative amount', { amountMinor: -1n }, 'the amount is out of range'],
    ['too large an amount', { amountMinor: AMOUNT_MINOR_MAX + 1n }, 'the amount is out of range'],
  ]

  test.each(cases)(
    'with %s is a conflict, and the bank is not asked',
    async (_what, changed, cause) => {
      const { result, asked } = await confirm({ ...reported, ...changed })
      expect(result).toEqual({ kind: 'conflict', cause })
      expect(asked).toEqual([])
    },
  )

  test.each(cases)('with %s in the response is a conflict', async (_what, changed, cause) => {
    const response = { kind: 'confirmed', payment: { ...reported, ...changed } } as const
    const { result } = await confirm(reported, response)
    expect(result).toEqual({ kind: 'conflict', cause: `in the requery response: ${cause}` })
  })
})

describe('a payment at the bounds', () => {
  test.each<[string, Partial<BankPayment>]>([
    ['a key of 200 characters', { bankKey: 'k'.repeat(200) }],
    ['one kobo', { amountMinor: 1n }],
    ['the largest amount', { amountMinor: AMOUNT_MINOR_MAX }],
  ])('with %s is recorded', async (_what, changed) => {
    const payment = { ...reported, ...changed }
    expect((await confirm(payment)).result).toEqual({ kind: 'paid', payment })
  })

  test('is recorded as PostgreSQL can store it: without unprintable characters, padding and absurd times', async () => {
    const long = 'x'.repeat(1_000)
    const payment: BankPayment = {
      bankKey: ' key-1\0',
      sessionId: ' session-1 ',
      accountNumber: ' 5010000001\n',
      amountMinor: 5n,
      paidAtMs: 0,
      payer: { name: long, accountNumber: long, bankCode: long, bankName: long },
      narration: `a\0b${long}`,
    }
    const stored = {
      bankKey: 'key-1',
      sessionId: 'session-1',
      accountNumber: '5010000001',
      amountMinor: 5n,
      paidAtMs: undefined,
      payer: {
        name: long.slice(0, 200),
        accountNumber: long.slice(0, 40),
        bankCode: long.slice(0, 20),
        bankName: long.slice(0, 100),
      },
      narration: `a b${long}`.slice(0, 500),
    }
    const { result, asked } = await confirm(payment)
    expect(result).toEqual({ kind: 'paid', payment: stored })
    expect(asked).toEqual([stored])
    const untimed = await confirm({ ...reported, paidAtMs: undefined })
    expect(untimed.result).toMatchObject({ payment: { paidAtMs: undefined } })
  })
})
