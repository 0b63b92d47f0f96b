import { expect, test } from 'vitest'
import { isOpenCode, readNipCode, saysReturned } from '../../src/banks/transfer-response.ts'

/** All codes of two digits. */
const CODES = Array.from({ length: 100 }, (_, number) => String(number).padStart(2, '0'))

test('only codes that refuse a transfer for certain make it fail', () => {
  const failed = CODES.flatMap((code) => {
    const state = readNipCode(code, 'the cause')
    return state.kind === 'failed' ? [[code, state.reason]] : []
  })
  expect(failed).toEqual([
    ['05', 'beneficiary_rejected'],
    ['07', 'beneficiary_rejected'],
    ...['12', '13', '30', '34'].map((code) => [code, 'bank_rejected']),
    ['51', 'insufficient_float'],
    ...['57', '58', '61', '63', '65'].map((code) => [code, 'bank_rejected']),
  ])
})

test('a transfer whose code says that it is not finished is pending; any other code proves nothing', () => {
  const of = (kind: string) => CODES.filter((code) => readNipCode(code, '').kind === kind)
  expect(of('pending')).toEqual(['01', '09'])
  expect([...of('failed'), ...of('pending'), ...of('unknown')]).toHaveLength(CODES.length)
  expect(readNipCode('', 'the cause')).toEqual({ kind: 'unknown', cause: 'the cause' })
})

test('approvals, duplicates, timeouts and faults on the way leave open what became of a transfer', () => {
  expect(CODES.filter(isOpenCode)).toEqual([
    '00',
    '01',
    '09',
    '26',
    '68',
    '91',
    '92',
    '94',
    '96',
    '97',
  ])
  expect(isOpenCode('')).toBe(false)
})

test.each([
  ['Transaction reversed', true],
  ['The funds were RETURNED by the bank of the beneficiary', true],
  ['Approved', false],
  ['unreturned', false],
  ['Transaction not reversed', false],
  ['Reversed: pending', false],
  ['No response returned', false],
  ['The switch returned an error', false],
  ['returned null', false],
])('"%s" says that the money came back: %s', (text, isReturned) => {
  expect(saysReturned(text)).toBe(isReturned)
})
