import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type NinePsbTransaction, notificationBody } from '../../src/banks/9psb/fake.ts'
import { notificationHash, readNotification } from '../../src/banks/9psb/notification.ts'
import { bankNotification } from './fixture.ts'

const PASSWORD = 'hdUof9b92D0WS40HnOhgtsem'
const credentials = { notificationUser: 'ninepsb', notificationPassword: PASSWORD }
const basic = (user: string, password: string) =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
const authorization = basic('ninepsb', PASSWORD)

const transaction: NinePsbTransaction = {
  reference: 'R-ACDEFGHJKMNPQRTWXY34',
  sessionId: '999169230607093526326281438501',
  date: '2023-06-07T09:35:29',
  accountNumber: '5030000013',
  accountName: '9PSB Agent/Ajadi Taofeek',
  amountMinor: 7_670n,
  senderName: 'Benson Malik',
  senderAccountNumber: '1003245245',
  senderBankCode: '000008',
  senderBankName: 'Polaris Bank',
  description: '9PSBAgent/1100000024/TRF',
}
const body = notificationBody(transaction, PASSWORD)
const read = (text: string, header: string | undefined = authorization) =>
  readNotification(bankNotification(text, { authorization: header }), credentials)

test('computes the hash of the bank’s published example', () => {
  const hash = notificationHash(
    {
      senderAccountNumber: '1003245245',
      senderBankCode: '000008',
      accountNumber: '5030000013',
      amountMinor: 7_670n,
    },
    PASSWORD,
  )
  expect(hash).toBe(
    '8938CFEF854D1953A89CFD8F77EA4E0E8B2700D67ED949D6278EEB5735066D1E' +
      'C4274F430F2231CD6F324BF5A2E7A43AFCBBF9A93E9F9BD778A83D28EECAE6BC',
  )
  expect(body).toContain(hash)
})

test('reads a genuine notification as a payment that is not bound', () => {
  expect(read(body)).toEqual({
    kind: 'payment',
    bound: false,
    payment: {
      bankKey: transaction.sessionId,
      sessionId: transaction.sessionId,
      accountNumber: '5030000013',
      amountMinor: 7_670n,
      // 09:35:29 in Lagos.
      paidAtMs: Date.UTC(2023, 5, 7, 8, 35, 29),
      payer: {
        name: 'Benson Malik',
        accountNumber: '1003245245',
        bankCode: '000008',
        bankName: 'Polaris Bank',
      },
      narration: '9PSBAgent/1100000024/TRF',
    },
  })
})

test('reads what the bank writes, to the kobo', () => {
  const digits = (length: number) => fc.stringMatching(new RegExp(`^\\d{${length}}$`))
  fc.assert(
    fc.property(
      fc.record({
        sessionId: fc.stringMatching(/^[A-Za-z0-9_./-]{1,64}$/),
        accountNumber: digits(10),
        amountMinor: fc.bigInt(1n, 1_000_000_000_000_000n),
        senderName: fc.string({ maxLength: 60 }),
        senderAccountNumber: fc.stringMatching(/^\d{0,20}$/),
        senderBankCode: fc.stringMatching(/^\d{0,6}$/),
      }),
      (changes) => {
        const reading = read(notificationBody({ ...transaction, ...changes }, PASSWORD))
        const { sessionId, accountNumber, amountMinor } = changes
        expect(reading).toMatchObject({
          kind: 'payment',
          payment: { bankKey: sessionId, sessionId, accountNumber, amountMinor },
        })
      },
    ),
  )
})

describe('a notification is unauthenticated', () => {
  const changed = (from: string, to: string) => {
    expect(body).toContain(from)
    return body.replace(from, to)
  }

  test.each([
    ['no authentication', undefined],
    ['another user', basic('ninepsc', PASSWORD)],
    ['another password', basic('ninepsb', `${PASSWORD}x`)],
  ])('with %s', (_name, header) => {
    const notification = bankNotification(body, { authorization: header })
    expect(readNotification(notification, credentials).kind).toBe('unauthenticated')
  })

  test.each([
    ['another amount', '"amount":76.7', '"amount":76.71'],
    ['another account', '"number":"5030000013"', '"number":"5030000014"'],
    ['another sender bank', '000008', '000009'],
    ['no hash', '"hash"', '"hush"'],
  ])('with %s', (_name, from, to) => {
    expect(read(changed(from, to)).kind).toBe('unauthenticated')
  })

  test('with any change of a hashed field', () => {
    const fields = ['senderAccountNumber', 'senderBankCode', 'accountNumber'] as const
    const change = fc.oneof(
      fc.tuple(fc.constantFrom(...fields), fc.stringMatching(/^\d{0,12}$/)),
      fc.tuple(fc.constant('amountMinor' as const), fc.bigInt(1n, 10n ** 15n)),
    )
    fc.assert(
      fc.property(change, ([field, value]) => {
        fc.pre(transaction[field] !== value)
        const { hash } = JSON.parse(body) as { hash: string }
        const changed = notificationBody({ ...transaction, [field]: value }, PASSWORD)
        expect(read(changed.replace(/"hash":"\w+"/, `"hash":"${hash}"`)).kind).toBe(
          'unauthenticated',
        )
      }),
    )
  })
})

test('does not bind the session id, nor digits moved from one field to the next', () => {
  const replayed = body.replace(transaction.sessionId, '999169230607093526326281438599')
  expect(read(replayed)).toMatchObject({ kind: 'payment', bound: false })
  const moved = body.replace('1003245245', '1003245').replace('"000008"', '"245000008"')
  expect(read(moved)).toMatchObject({ kind: 'payment', bound: false })
})

describe('a notification is malformed', () => {
  test.each([
    ['no JSON', 'Hello'],
    ['no object', '[]x'],
    ['an exponent', body.replace('76.7', '1e3')],
    ['three decimals', body.replace('76.7', '76.701')],
    ['a negative amount', body.replace('76.7', '-76.7')],
    ['nothing to credit', notificationBody({ ...transaction, amountMinor: 0n }, PASSWORD)],
    ['too much', notificationBody({ ...transaction, amountMinor: 10n ** 15n + 1n }, PASSWORD)],
    ['another currency', body.replace('NGN', 'USD')],
    ['another code', body.replace('"code":"00"', '"code":"99"')],
    ['no session id', body.replace(transaction.sessionId, '')],
    ['a session id of other characters', body.replace(transaction.sessionId, 'a b')],
    [
      'an account of nine digits',
      notificationBody({ ...transaction, accountNumber: '503000001' }, PASSWORD),
    ],
  ])('with %s', (_name, text) => {
    expect(read(text).kind).toBe('malformed')
  })
})
