import { describe, expect, test } from 'vitest'
import {
  differenceOf,
  type Line,
  mismatch,
  missingHere,
  needsAsking,
  paidTwice,
} from '../../src/payouts/discrepancy.ts'
import type { Payout, PayoutStatus } from '../../src/payouts/payout.ts'
import { STATUSES } from './ways.ts'

const OF = { bank: 'PROVIDUS', live: true } as const

/** As much of a payout as is compared. */
const payoutWith = (more: Partial<Payout> = {}) =>
  ({
    id: 'pay_1',
    live: true,
    status: 'PAID',
    bank: 'PROVIDUS',
    amountMinor: 150_000n,
    bankReference: 'OURS',
    sessionId: 'S1',
    destination: { accountNumber: '0123456785' },
    ...more,
  }) as Payout

const lineWith = (more: Partial<Line> = {}): Line => ({
  reference: 'OURS',
  sessionId: 'S1',
  amountMinor: 150_000n,
  accountNumber: '0123456785',
  atMs: undefined,
  state: 'paid',
  ...more,
})

const differs = (payout: Partial<Payout>, line: Partial<Line>) =>
  differenceOf(OF, payoutWith(payout), lineWith(line))

describe('a line differs from its payout', () => {
  test.each<[Partial<Payout>, Partial<Line>, string]>([
    [{}, { amountMinor: 149_999n }, 'NGN 1499.99 instead of 1500.00'],
    [{}, { accountNumber: '0123456786' }, 'to 0123456786 instead of 0123456785'],
    [{ live: false }, {}, 'it is a payout of test mode'],
    [{ bank: 'PALMPAY' }, {}, 'it was sent through PalmPay'],
    [{ status: 'FAILED' }, {}, 'it is paid there and FAILED here'],
    [{}, { state: 'failed', amountMinor: 1n }, 'NGN 0.01 instead of 1500.00, it is failed there'],
  ])('if it states otherwise: %o, %o', (payout, line, text) => {
    expect(differs(payout, line)).toContain(text)
  })

  test.each<[Partial<Payout>, Partial<Line>]>([
    [{}, {}],
    [{}, { accountNumber: '' }],
    [{}, { accountNumber: '******6786' }],
    [{}, { accountNumber: '00123456786' }],
    [{}, { accountNumber: '0123456786 ADA' }],
    [{ status: 'APPROVED', bank: undefined }, { state: 'failed' }],
    [{ status: 'FAILED' }, { state: 'pending' }],
  ])('unless it lacks a fact, or contradicts none: %o, %o', (payout, line) => {
    expect(differs(payout, line)).toBeUndefined()
  })

  test('if money left, or came back, for a payout that was not sent or is final otherwise', () => {
    const agreeing = (state: Line['state']) =>
      STATUSES.filter((status) => differs({ status }, { state }) === undefined)
    const unclear: PayoutStatus[] = ['SUBMITTING', 'UNKNOWN', 'MANUAL_REVIEW']
    expect(new Set(agreeing('paid'))).toEqual(new Set([...unclear, 'PAID', 'RETURNED']))
    expect(new Set(agreeing('failed'))).toEqual(
      new Set([...unclear, 'APPROVED', 'FAILED', 'RETURNED']),
    )
    expect(new Set(agreeing('returned'))).toEqual(
      new Set([...unclear, 'PAID', 'FAILED', 'RETURNED']),
    )
    expect(agreeing('pending')).toEqual(STATUSES)
  })
})

test('the bank is asked about a payout whose result is unclear, and about a paid one that came back', () => {
  const asked = (state: Line['state']) =>
    STATUSES.filter((status) => needsAsking(status, lineWith({ state })))
  expect(asked('paid')).toEqual(['UNKNOWN', 'MANUAL_REVIEW'])
  expect(asked('failed')).toEqual(['UNKNOWN', 'MANUAL_REVIEW'])
  expect(asked('returned')).toEqual(['UNKNOWN', 'MANUAL_REVIEW', 'PAID'])
  expect(asked('pending')).toEqual([])
})

describe('a difference', () => {
  const facts = { ...OF, sessionId: 'S1', amountMinor: 150_000n, accountNumber: '0123456785' }

  test('without a payout names the transfer by our reference, or else by its session, or by what is stated', () => {
    const found = missingHere(OF, lineWith())
    expect(found).toMatchObject({ ...facts, kind: 'MISSING_HERE', payoutId: '', lineKey: 'S1' })
    const ours = '0123456789ABCDEFGHIJKLMNO'
    expect(missingHere(OF, lineWith({ reference: ours })).lineKey).toBe(ours)
    // A reference of others may repeat.
    const rent = { reference: 'RENT', sessionId: '', atMs: 1 }
    const keys = [rent, { ...rent, amountMinor: 1n }].map(
      (each) => missingHere(OF, lineWith(each)).lineKey,
    )
    expect(new Set(keys).size).toBe(2)
    const text = 'Providus Bank sent NGN 1500.00 to 0123456785, and no payout has its reference.'
    expect(found.text).toContain(text)
    expect(missingHere(OF, lineWith({ accountNumber: '' })).text).toContain('an unknown account')
  })

  test('of a transfer without reference and session is another one for each amount, account and time', () => {
    const keyOf = (more: Partial<Line> = {}) =>
      missingHere(OF, lineWith({ reference: '', sessionId: '', atMs: 1, ...more })).lineKey
    const others = [
      {},
      { amountMinor: 1n },
      { accountNumber: '' },
      { atMs: 2 },
      { atMs: undefined },
    ].map(keyOf)
    expect(new Set(others).size).toBe(others.length)
    expect(keyOf()).toBe(keyOf())
    expect(others).not.toContain('')
  })

  test.each([
    ['0123456789abcdefghijABCDE', true],
    ['0123456789abcdefghijABCD', false],
    ['0123456789abcdefghijABCDEF', false],
    ['0123456789abcdefghij-ABCD', false],
  ])('with the reference %s says whether it is like ours: %s', (reference, isOurs) => {
    const { text } = missingHere(OF, lineWith({ reference }))
    expect(text.includes('may have been restored')).toBe(isOurs)
    expect(text.includes('not made by Inflow')).toBe(!isOurs)
  })

  test('of a payout states what the bank shows, and two transfers their sessions', () => {
    const line = lineWith({ amountMinor: 1n, sessionId: 'S9' })
    expect(mismatch(OF, payoutWith(), line, 'another amount')).toEqual({
      ...facts,
      amountMinor: 1n,
      sessionId: 'S9',
      kind: 'MISMATCHED',
      payoutId: 'pay_1',
      lineKey: 'OURS',
      bankReference: 'OURS',
      text: 'Providus Bank shows the payout otherwise: another amount.',
    })
    const text = 'Providus Bank shows 2 transfers for the payout.'
    expect(paidTwice(OF, payoutWith(), [], 2).text).toBe(text)
    const sessions = ['1', '2', '3', '4', '5', '6']
    expect(paidTwice(OF, payoutWith(), sessions)).toEqual({
      ...facts,
      kind: 'PAID_TWICE',
      payoutId: 'pay_1',
      lineKey: 'OURS',
      bankReference: 'OURS',
      text: 'Providus Bank shows 6 transfers for the payout, with the sessions 1, 2, 3, 4, 5.',
    })
  })
})
