import { expect, test } from 'vitest'
import {
  differenceFrom,
  leavesOpen,
  reasonOfText,
  saysReturned,
  statesItself,
} from '../../src/banks/transfer-response.ts'
import { transferOrder } from './transfer-guarantees.ts'

test.each([
  ['Insufficient balance', 'insufficient_float'],
  ['The debit account has insufficient funds', 'insufficient_float'],
  ['Invalid beneficiary account', 'beneficiary_rejected'],
  ['payee account is restricted', 'beneficiary_rejected'],
  ['Debit account is not a beneficiary', 'bank_rejected'],
  ['Invalid account for the sender', 'bank_rejected'],
  ['Bad request', 'bank_rejected'],
  ['', 'bank_rejected'],
])('the reason of "%s" is %s', (text, reason) => {
  expect(reasonOfText(text, { narration: '' })).toBe(reason)
})

test.each([
  ['Failed: RETURNED GOODS', 'returned goods', false],
  ['Returned goods: transaction reversed', 'returned goods', true],
  ['Transaction not reversed', 'not', false],
  ['Transaction reversed', '', true],
])(
  'whether "%s" says that the money came back, if the narration is "%s": %s',
  (text, narration, expected) => {
    expect(statesItself(text, { narration }, saysReturned)).toBe(expected)
  },
)

test.each([
  ['Failed: payee has insufficient stock', 'Payee has insufficient stock', 'bank_rejected'],
  ['Debit account is not a beneficiary', 'debit', 'bank_rejected'],
  ['Insufficient balance for stock', 'stock', 'insufficient_float'],
])('the reason of "%s" is not the narration "%s": %s', (text, narration, reason) => {
  expect(reasonOfText(text, { narration })).toBe(reason)
})

test.each([
  'Duplicate payment reference',
  'Reference already used',
  'paymentReference must be unique',
  'Transaction in progress',
  'Error processing request',
  'Request timed out',
  'Beneficiary bank not available',
  'System malfunction, try again',
  'Unknown status',
  'Payment reference exists',
  'The reference is in use',
  'Transaction submitted',
  'Request has been received',
  'Queued',
  'Transfer accepted',
  'Transaction successful',
  'Beneficiary credited',
  'Unable to complete the transfer',
  'Connection to the beneficiary bank was lost',
])('"%s" leaves a transfer open', (text) => {
  expect(leavesOpen(text)).toBe(true)
})

test.each([
  'Insufficient balance',
  'Invalid beneficiary account',
  'Beneficiary account does not exist',
  'Unable to locate the beneficiary account',
  'Bad request',
  '',
])('"%s" leaves nothing open', (text) => {
  expect(leavesOpen(text)).toBe(false)
})

test('a response about the order has its reference, its amount and, if stated, its account', () => {
  const order = transferOrder()
  const { reference, amountMinor, beneficiary } = order
  const { accountNumber } = beneficiary
  const stated = { reference, amountMinor, accountNumber }
  expect(differenceFrom(order, stated)).toBeUndefined()
  expect(differenceFrom(order, { ...stated, accountNumber: '' })).toBeUndefined()
  const wrong = [
    { ...stated, reference: '' },
    { ...stated, reference: `${reference}X` },
    { ...stated, amountMinor: undefined },
    { ...stated, amountMinor: amountMinor + 1n },
    { ...stated, accountNumber: '9999999999' },
  ]
  const differences = wrong.map((each) => differenceFrom(order, each) ?? '')
  expect(differences[2]).toBe('the response names no amount')
  expect(new Set(differences).size).toBe(wrong.length)
  expect(differences.every((text) => text !== '' && !text.includes('9999999999'))).toBe(true)
})
