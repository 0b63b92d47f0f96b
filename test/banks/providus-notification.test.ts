import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { notificationBody, type ProvidusTransaction } from '../../src/banks/providus/fake.ts'
import { authSignature, readNotification } from '../../src/banks/providus/providus.ts'
import { bankNotification } from './fixture.ts'
import { ENV } from './providus-fixture.ts'

const clientId = ENV.BANK_PROVIDUS_CLIENT_ID
const signature = authSignature(clientId, ENV.BANK_PROVIDUS_CLIENT_SECRET)
const rules = { clientId, signature, amountField: 'transactionAmount' } as const
const signed = { 'client-id': clientId, 'x-auth-signature': signature }

const transaction: ProvidusTransaction = {
  sessionId: '000004210301180534806663649508',
  settlementId: '202210301006807600001432',
  accountNumber: '9977581536',
  amountMinor: 100_000n,
  feeMinor: 4_500n,
  remarks: 'FROM UBA/',
  sourceAccountNumber: '2093566866',
  sourceAccountName: 'CASAFINA CREDIT-EASY LOAN',
  sourceBankCode: '000004',
  sourceBankName: 'UNITED BANK FOR AFRICA',
  tranDateTime: '2021-03-01 18:06:20',
  notificationStatus: 'pending',
}
const body = notificationBody(transaction)
const read = (text: string, headers: Readonly<Record<string, string>> = signed) =>
  readNotification(bankNotification(text, headers), rules)

test('computes the signature of the bank’s published example', () => {
  expect(signature).toBe(
    'BE09BEE831CF262226B426E39BD1092AF84DC63076D4174FAC78A2261F9A3D6E' +
      '59744983B8326B69CDF2963FE314DFC89635CFA37A40596508DD6EAAB09402C7',
  )
})

test('reads a signed notification as a payment that is not bound', () => {
  expect(read(body)).toEqual({
    kind: 'payment',
    bound: false,
    payment: {
      bankKey: '202210301006807600001432',
      sessionId: '000004210301180534806663649508',
      accountNumber: '9977581536',
      amountMinor: 100_000n,
      // 18:06:20 in Lagos.
      paidAtMs: Date.UTC(2021, 2, 1, 17, 6, 20),
      payer: {
        name: 'CASAFINA CREDIT-EASY LOAN',
        accountNumber: '2093566866',
        bankCode: '',
        bankName: 'UNITED BANK FOR AFRICA',
      },
      narration: 'FROM UBA/',
    },
  })
})

test('credits what the payer sent or, by a setting, the rest after the fee', () => {
  const settled = { ...rules, amountField: 'settledAmount' } as const
  expect(readNotification(bankNotification(body, signed), settled)).toMatchObject({
    payment: { amountMinor: 95_500n },
  })
})

test('reads what the bank writes, to the kobo', () => {
  const id = fc.stringMatching(/^[A-Za-z0-9_./-]{1,64}$/).filter((text) => !/^null$/i.test(text))
  fc.assert(
    fc.property(
      fc.record({
        sessionId: id,
        settlementId: id,
        accountNumber: fc.stringMatching(/^\d{10}$/),
        amountMinor: fc.bigInt(1n, 1_000_000_000_000_000n),
        remarks: fc.string({ maxLength: 60 }),
      }),
      ({ settlementId, sessionId, accountNumber, amountMinor, remarks }) => {
        const changes = { settlementId, sessionId, accountNumber, amountMinor, remarks }
        const reading = read(notificationBody({ ...transaction, ...changes, feeMinor: 0n }))
        expect(reading).toMatchObject({
          kind: 'payment',
          payment: { bankKey: settlementId, sessionId, accountNumber, amountMinor },
        })
      },
    ),
  )
})

describe('the signature', () => {
  test('is accepted in either case, and without the client id', () => {
    expect(read(body, { ...signed, 'x-auth-signature': signature.toLowerCase() }).kind).toBe(
      'payment',
    )
    expect(read(body, { 'x-auth-signature': signature }).kind).toBe('payment')
  })

  test.each<[string, Record<string, string>]>([
    ['missing', { 'client-id': clientId }],
    ['of another secret', { ...signed, 'x-auth-signature': authSignature(clientId, 'another') }],
    ['of another client id', { ...signed, 'client-id': 'another' }],
  ])('is rejected if it is %s', (_name, headers) => {
    expect(read(body, headers).kind).toBe('unauthenticated')
    expect(read('no JSON', headers).kind).toBe('unauthenticated')
  })

  test('is rejected with any character changed', () => {
    fc.assert(
      fc.property(fc.nat(127), fc.constantFrom(...'0123456789ABCDEF'), (at, character) => {
        fc.pre(signature[at] !== character)
        const wrong = signature.slice(0, at) + character + signature.slice(at + 1)
        expect(read(body, { ...signed, 'x-auth-signature': wrong }).kind).toBe('unauthenticated')
      }),
    )
  })
})

describe('a placeholder is read as an empty value', () => {
  test.each(['null', ' ', '', 'NULL'])('%j', (nothing) => {
    const changes = { sessionId: nothing, sourceAccountName: nothing, remarks: nothing }
    expect(read(notificationBody({ ...transaction, ...changes }))).toMatchObject({
      kind: 'payment',
      payment: {
        // The settlement id stands in.
        sessionId: transaction.settlementId,
        payer: { name: '' },
        narration: '',
      },
    })
  })
})

describe('a notification is malformed', () => {
  const amount = '"transactionAmount":"1000"'
  test.each([
    ['no JSON', 'Hello'],
    ['no object', '"text"'],
    ['an exponent', body.replace(amount, '"transactionAmount":"1e3"')],
    ['three decimals', body.replace(amount, '"transactionAmount":"1000.005"')],
    ['a thousands separator', body.replace(amount, '"transactionAmount":"1,000"')],
    ['a negative amount', body.replace(amount, '"transactionAmount":"-1000"')],
    ['nothing to credit', body.replace(amount, '"transactionAmount":"0.00"')],
    ['too much', body.replace(amount, '"transactionAmount":"10000000000000.01"')],
    ['another currency', body.replace('NGN', 'USD')],
    ['no settlement id', body.replace(transaction.settlementId, ' ')],
    ['a session id of other characters', body.replace(transaction.sessionId, 'a&b')],
    ['no account', body.replace(transaction.accountNumber, 'null')],
  ])('with %s', (_name, text) => {
    expect(text).not.toBe(body)
    expect(read(text).kind).toBe('malformed')
  })
})
