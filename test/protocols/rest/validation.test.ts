import { beforeAll, describe, expect, test } from 'vitest'
import { useSharedService } from '../../support/service.ts'
import { asJson, creation, GENERATE, golden, send } from './rest.ts'

const service = useSharedService()

let key: string

beforeAll(async () => {
  ;({ key } = await service.business())
})

/** What is said of the fields, in the order in which it is said. */
async function faultsOf(path: string, body: unknown): Promise<string[]> {
  const answer = await service.post(path, key, body)
  expect(answer.status, answer.text).toBe(422)
  const { status, code, message, errors, request_id } = answer.body
  expect({ status, code }).toEqual({ status: false, code: 'validation_failed' })
  expect(request_id).toBe(answer.headers.get('x-request-id'))
  const names = errors.map((each: { field: string }) => each.field)
  expect(message).toBe(`Invalid request: ${[...new Set(names)].join(', ')}`)
  return errors.map((each: { field: string; message: string }) => `${each.field} ${each.message}`)
}

const REQUIRED = 'is required'
const NO_STRING = 'must be a string'
const NO_NUMBER = 'must be a whole number'
const PRINTABLE = 'must be 1 to 100 printable characters'
const NAME = 'must be 1 to 100 characters without line breaks, control or invisible characters'
const EMAIL = 'must be a valid e-mail address of at most 254 characters'
const PHONE =
  'must be a Nigerian number (0XXXXXXXXXX, 234…, +234…) or an international number with +'
const BANK = 'must be one of 9PSB, SAFEHAVEN, PROVIDUS, PALMPAY'
const SESSION = 'must be 1 to 64 characters of A-Z a-z 0-9 - _ . /'
const STATUS = 'must be one of PENDING, SUCCESS, FAILED, REVERSED'
const TIME = 'must be YYYY-MM-DD HH:MM:SS or RFC 3339'
const NUL = 'must not contain the character U+0000'

const ABSENT: [unknown, string][] = [
  [undefined, REQUIRED],
  [null, REQUIRED],
  ['', REQUIRED],
  [' \t\n ', REQUIRED],
]
const MISTYPED: [unknown, string][] = [5, true, [], ['x'], {}].map((value) => [value, NO_STRING])
const NO_WHOLE: [unknown, string][] = ['1', 1.5, true, [], {}, 1e300].map((value) => [
  value,
  NO_NUMBER,
])

const wrong = (message: string, ...values: unknown[]): [unknown, string][] =>
  values.map((value) => [value, message])

const OF_CREATION: Record<string, [unknown, string][]> = {
  reference: [
    ...ABSENT,
    ...MISTYPED,
    ...wrong(PRINTABLE, 'x'.repeat(101), 'a\nb', 'a\u0000b', 'a\u2028b', '\ud800'),
  ],
  email: [
    ...ABSENT,
    ...MISTYPED,
    ...wrong(EMAIL, 'ada', 'ada@', '@example.com', 'a b@example.com', `${'x'.repeat(250)}@e.co`),
  ],
  phone: [
    ...ABSENT,
    ...MISTYPED,
    ...wrong(
      PHONE,
      '8012345678',
      '0801234567',
      '080123456789',
      '+2340',
      '+0123456789',
      '447911123456',
    ),
    ...wrong(PHONE, '0801234567x', '+', '+1234567890123456', '0801 234 5678'),
  ],
  firstName: [...ABSENT, ...MISTYPED, ...wrong(NAME, 'x'.repeat(101), 'A\u0007', '😀'.repeat(101))],
  lastName: [...ABSENT, ...MISTYPED, ...wrong(NAME, 'x'.repeat(101), 'A\tB')],
  bank: [...ABSENT, ...MISTYPED, ...wrong(BANK, 'GTB', '9psb', '9PSB,PROVIDUS', 'BANK_9PSB')],
  idType: [...MISTYPED, ...wrong('must be nin or bvn', 'NIN', 'passport')],
  idNumber: [
    ...MISTYPED,
    ...wrong('must be 11 digits', '1234567890', '123456789012', '1234567890x', '١٢٣٤٥٦٧٨٩٠١'),
  ],
}

const FIELDS: Record<string, Record<string, [unknown, string][]>> = {
  'getTransaction/': {
    session_id: [
      ...ABSENT,
      ...MISTYPED,
      ...wrong(SESSION, 'x'.repeat(65), 'a b', "';--", 'a\u0000'),
    ],
  },
  'getVirtualAccount/': {
    reference: [
      ...ABSENT.map(([value]): [unknown, string] => [value, 'is required, or email is']),
      ...MISTYPED,
      ...wrong(PRINTABLE, 'x'.repeat(101), 'a\u0000b'),
    ],
  },
  'listTransactions/': {
    page_size: [...NO_WHOLE, ...wrong('must be 0 to 200', -1, 201)],
    page_token: [
      ...MISTYPED,
      ...wrong('must be at most 500 characters', 'x'.repeat(501)),
      ...wrong(
        'is not a token of this list',
        'x',
        'W10',
        tokenOf([]),
        tokenOf(['1']),
        tokenOf(['x', 'y']),
      ),
      ...wrong(
        'is not a token of this list',
        tokenOf(['-1', 'y']),
        tokenOf([1, 2]),
        tokenOf(['1', '\0']),
      ),
      ...wrong(
        'is not a token of this list',
        tokenOf(['999999999999999', 'y']),
        tokenOf(['1e3', 'y']),
      ),
    ],
    reference: [
      ...MISTYPED,
      ...wrong('must be at most 100 characters', 'x'.repeat(101)),
      ...wrong(NUL, 'a\u0000b'),
    ],
    status: [...MISTYPED, ...wrong(STATUS, 'success', 'DONE')],
    from: [
      ...MISTYPED,
      ...wrong(TIME, 'yesterday', '2026-01-01', '2026-02-30 10:00:00', '1700000000'),
    ],
    to: [
      ...MISTYPED,
      ...wrong(TIME, '2026-13-01 10:00:00', '2026-01-01T10:00:00', '2026-01-01 24:00:00'),
      ...wrong(TIME, '2026-02-29T10:00:00Z'),
    ],
  },
  'listEvents/': {
    after: [...NO_WHOLE, ...wrong('must be 0 or more', -1)],
    limit: [...NO_WHOLE, ...wrong('must be 0 to 500', -1, 501)],
    kinds: wrong('must be a list of strings', 'PAYMENT_NOTIFICATION', [1], 5, {}),
  },
}

function tokenOf(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}

const show = (value: unknown) => (JSON.stringify(value) ?? 'missing').slice(0, 40)

describe('422 generateVirtualAccount: each field, each way to be wrong', () => {
  const rows = Object.entries(OF_CREATION).flatMap(([field, cases]) =>
    cases.map(([value, message]) => [field, show(value), message, value] as const),
  )
  test.each(rows)('%s %s %s', async (field, _shown, message, value) => {
    const body = creation({ [field]: value })
    expect(await faultsOf('generateVirtualAccount/', body)).toEqual([`${field} ${message}`])
  })

  test.each(['idType', 'idNumber'])('%s is required for PALMPAY', async (field) => {
    for (const value of [undefined, null, '', '  ']) {
      const body = creation({
        bank: 'PALMPAY',
        idType: 'nin',
        idNumber: '12345678901',
        [field]: value,
      })
      expect(await faultsOf('generateVirtualAccount/', body)).toEqual([
        `${field} is required when bank is PALMPAY`,
      ])
    }
  })
})

describe('422 of the other paths: each field, each way to be wrong', () => {
  const rows = Object.entries(FIELDS).flatMap(([path, fields]) =>
    Object.entries(fields).flatMap(([field, cases]) =>
      cases.map(([value, message]) => [path, field, show(value), message, value] as const),
    ),
  )
  test.each(rows)('%s %s %s %s', async (path, field, _shown, message, value) => {
    expect(await faultsOf(path, { [field]: value })).toEqual([`${field} ${message}`])
  })
})

describe('422 lists all faults at once, in the order of the fields', () => {
  test('of a creation, to the byte', async () => {
    const body = JSON.stringify({
      idNumber: 12345678901,
      idType: 'x',
      bank: 'GTB',
      lastName: ['Obi'],
      phone: '1',
      email: null,
      reference: '',
    })
    const answer = await send(service.httpUrl, { path: GENERATE, headers: asJson(key), body })
    expect(answer.status).toBe(422)
    expect(golden(answer.text)).toBe(
      '{"status":false,"message":"Invalid request: reference, email, phone, firstName, lastName, bank, idType, idNumber","code":"validation_failed","errors":[' +
        `{"field":"reference","message":"${REQUIRED}"},{"field":"email","message":"${REQUIRED}"},` +
        `{"field":"phone","message":"${PHONE}"},{"field":"firstName","message":"${REQUIRED}"},` +
        `{"field":"lastName","message":"${NO_STRING}"},{"field":"bank","message":"${BANK}"},` +
        '{"field":"idType","message":"must be nin or bvn"},{"field":"idNumber","message":"must be a string"}],"request_id":"*"}',
    )
  })

  test('of an empty object', async () => {
    expect(await faultsOf('generateVirtualAccount/', {})).toEqual(
      ['reference', 'email', 'phone', 'firstName', 'lastName', 'bank'].map(
        (name) => `${name} ${REQUIRED}`,
      ),
    )
  })

  test('of PALMPAY without an identity and with a wrong name', async () => {
    expect(
      await faultsOf('generateVirtualAccount/', creation({ bank: 'PALMPAY', firstName: '' })),
    ).toEqual([
      `firstName ${REQUIRED}`,
      'idType is required when bank is PALMPAY',
      'idNumber is required when bank is PALMPAY',
    ])
  })

  test('of a list', async () => {
    expect(
      await faultsOf('listTransactions/', { page_size: 'x', status: 'x', reference: 5 }),
    ).toEqual([`page_size ${NO_NUMBER}`, `reference ${NO_STRING}`, `status ${STATUS}`])
    expect(await faultsOf('listTransactions/', { from: 'x', to: 'y' })).toEqual([
      `from ${TIME}`,
      `to ${TIME}`,
    ])
  })
})
