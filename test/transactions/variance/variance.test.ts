import { create } from '@bufbuild/protobuf'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { RecordPaymentRequestSchema } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import {
  type AllowedPayer,
  AMOUNT_RULES,
  areNamesAlike,
  type PaymentTerms,
  wordsOf,
} from '../../../src/accounts/terms.ts'
import { toTokenPayment } from '../../../src/transactions/message.ts'
import { roundsOf } from '../../../src/transactions/variance/record-one-time.ts'
import { VARIANCES, varianceOf } from '../../../src/transactions/variance/variance.ts'

const NAMES = ['ADA OBI', 'Obi Ada Ngozi', 'BOLA ADE', 'Musa Bello', '', 'ACME NIGERIA LTD']
const NUMBERS = ['0123456789', '1111111111']

const allowed: fc.Arbitrary<AllowedPayer> = fc.oneof(
  fc.record({
    accountNumber: fc.constantFrom(...NUMBERS),
    bankCode: fc.constantFrom('', '058', '000013'),
  }),
  fc.record({ name: fc.constantFrom('Ada Obi', 'Bola Ade') }),
)

const termsWith = (overrides: Partial<PaymentTerms> = {}): PaymentTerms => ({
  expectedAmountMinor: undefined,
  amountRule: 'ANY',
  expiresAtMs: undefined,
  singleUse: false,
  allowedPayers: [],
  ...overrides,
})

const terms: fc.Arbitrary<PaymentTerms> = fc
  .record({
    expectedAmountMinor: fc.option(fc.bigInt(1n, 20n), { nil: undefined }),
    amountRule: fc.constantFrom(...AMOUNT_RULES),
    expiresAtMs: fc.option(fc.integer({ min: 1, max: 20 }), { nil: undefined }),
    singleUse: fc.boolean(),
    allowedPayers: fc.array(allowed, { maxLength: 3 }),
  })
  .map((each) => ({
    ...each,
    amountRule: each.expectedAmountMinor === undefined ? 'ANY' : each.amountRule,
  }))

const payment = fc.record({
  amountMinor: fc.bigInt(1n, 20n),
  paidAtMs: fc.integer({ min: 0, max: 21 }),
  payer: fc.record({
    name: fc.constantFrom(...NAMES),
    accountNumber: fc.constantFrom(...NUMBERS, ''),
    bankCode: fc.constantFrom('', '058', '000013'),
  }),
})

describe('the variance of a payment', () => {
  test('is one of the six, and the same for the same payment', () => {
    fc.assert(
      fc.property(terms, fc.boolean(), payment, (t, isUsed, p) => {
        const variance = varianceOf(t, isUsed, p)
        expect(VARIANCES).toContain(variance)
        expect(varianceOf(t, isUsed, structuredClone(p))).toBe(variance)
      }),
    )
  })

  test('is NONE exactly if the payment keeps every term', () => {
    fc.assert(
      fc.property(terms, fc.boolean(), payment, (t, isUsed, p) => {
        const { expectedAmountMinor: expected = p.amountMinor } = t
        const keepsAmount = {
          ANY: true,
          EXACT: p.amountMinor === expected,
          AT_LEAST: p.amountMinor >= expected,
          AT_MOST: p.amountMinor <= expected,
        }[t.amountRule]
        const isInTime = t.expiresAtMs === undefined || p.paidAtMs < t.expiresAtMs
        const isFirst = !(t.singleUse && isUsed)
        const isAllowed =
          t.allowedPayers.length === 0 ||
          t.allowedPayers.some((each) =>
            'name' in each
              ? areNamesAlike(each.name, p.payer.name)
              : each.accountNumber === p.payer.accountNumber &&
                new Set([each.bankCode, p.payer.bankCode].filter((code) => code !== '')).size < 2,
          )
        const isAsExpected = keepsAmount && isInTime && isFirst && isAllowed
        expect(varianceOf(t, isUsed, p) === 'NONE').toBe(isAsExpected)
      }),
    )
  })

  test('says on which side of the expected amount it is', () => {
    fc.assert(
      fc.property(fc.bigInt(1n, 20n), payment, (expectedAmountMinor, p) => {
        const of = (amountRule: PaymentTerms['amountRule']) =>
          varianceOf(termsWith({ expectedAmountMinor, amountRule }), false, p)
        const side =
          p.amountMinor === expectedAmountMinor
            ? 'NONE'
            : p.amountMinor < expectedAmountMinor
              ? 'UNDERPAID'
              : 'OVERPAID'
        expect(of('EXACT')).toBe(side)
        expect(of('AT_LEAST')).toBe(side === 'OVERPAID' ? 'NONE' : side)
        expect(of('AT_MOST')).toBe(side === 'UNDERPAID' ? 'NONE' : side)
        expect(of('ANY')).toBe('NONE')
      }),
    )
  })

  test('is REPEATED before all else, then EXPIRED, then PAYER_NOT_ALLOWED', () => {
    const strict = termsWith({
      expectedAmountMinor: 5n,
      amountRule: 'EXACT',
      expiresAtMs: 10,
      singleUse: true,
      allowedPayers: [{ name: 'Ada Obi' }],
    })
    const payer = { name: 'MUSA BELLO', accountNumber: '', bankCode: '' }
    const late = { amountMinor: 4n, paidAtMs: 10, payer }
    expect(varianceOf(strict, true, late)).toBe('REPEATED')
    expect(varianceOf(strict, false, late)).toBe('EXPIRED')
    expect(varianceOf(strict, false, { ...late, paidAtMs: 9 })).toBe('PAYER_NOT_ALLOWED')
    const own = { ...payer, name: 'OBI/ADA N' }
    expect(varianceOf(strict, false, { ...late, paidAtMs: 9, payer: own })).toBe('UNDERPAID')
  })
})

describe('names', () => {
  test.each([
    ['Ada Obi', 'OBI ADA NGOZI', true],
    ['Àdá Ọbi', 'ADA OBI', true],
    ['Ada-Grace Obi', 'Grace Obi', true],
    ['Ada Obi', 'ADA BELLO', false],
    ['Mr Ada Obi', 'MR ADA BELLO', false],
    ['Acme Nigeria Limited', 'ZENITH NIGERIA LIMITED', false],
    ['Ada Ada', 'ADA OBI', false],
    ['Ada O', 'ADA O BELLO', false],
    ['Ada Obi', '', false],
  ])('"%s" and "%s": %s', (a, b, isAlike) => {
    expect(areNamesAlike(a, b)).toBe(isAlike)
    expect(areNamesAlike(b, a)).toBe(isAlike)
  })

  test('are alike however the words are ordered and written', () => {
    const words = fc.uniqueArray(fc.stringMatching(/^[A-Z]{2,6}$/), { minLength: 2, maxLength: 5 })
    fc.assert(
      fc.property(words, (all) => {
        const name = all.join(' ')
        fc.pre(wordsOf(name).size >= 2)
        expect(areNamesAlike(name, all.toReversed().join('-').toLowerCase())).toBe(true)
      }),
    )
  })
})

test('rounds keep every payment, in order, and have one of each single-use account', () => {
  const accounts = fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 20 })
  fc.assert(
    fc.property(accounts, (ids) => {
      const payments = ids.map((id, at) => ({ id, at, isSingleUse: id !== 'c' }))
      const rounds = roundsOf(payments, (payment) => payment)
      expect(rounds.flat().toSorted((x, y) => x.at - y.at)).toEqual(payments)
      for (const round of rounds) {
        const singles = round.filter(({ isSingleUse }) => isSingleUse).map(({ id }) => id)
        expect(new Set(singles).size).toBe(singles.length)
      }
      for (const id of ['a', 'b', 'c']) {
        const order = rounds.flatMap((round) => round.filter((each) => each.id === id))
        expect(order).toEqual(payments.filter((each) => each.id === id))
      }
    }),
  )
})

test('a payment is late at its expiry and not a nanosecond before, though times are kept in milliseconds', () => {
  const anyAmount = { expectedAmountMinor: undefined, amountRule: 'ANY', singleUse: false } as const
  const expiries = fc.integer({ min: Date.UTC(2000, 0), max: Date.UTC(2099, 0) })
  const offsets = fc.oneof(
    fc.bigInt({ min: -3n, max: 3n }),
    fc.bigInt({ min: -2_000_000n, max: 2_000_000n }),
  )
  fc.assert(
    fc.property(expiries, offsets, (expiresAtMs, offsetNs) => {
      const atNs = BigInt(expiresAtMs) * 1_000_000n + offsetNs
      const paidAt = { seconds: atNs / 1_000_000_000n, nanos: Number(atNs % 1_000_000_000n) }
      const request = create(RecordPaymentRequestSchema, { bank: Bank.BANK_9PSB, paidAt })
      const reported = toTokenPayment(request, 0, 'notification')
      const variance = varianceOf({ ...anyAmount, expiresAtMs, allowedPayers: [] }, false, reported)
      expect(variance).toBe(offsetNs < 0n ? 'NONE' : 'EXPIRED')
    }),
  )
})
