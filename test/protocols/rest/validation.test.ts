import { describe, expect, test } from 'vitest'
import { ThirdPartyService } from '../../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import { Fault } from '../../../src/core/errors.ts'
import { readRoutes } from '../../../src/server/http/gateway.ts'
import { createCheck, validation } from '../../../src/server/interceptors/validation.ts'
import { createInvokers, implement } from '../../../src/server/invokers.ts'
import { creation } from './rest.ts'

// A body is read and validated as in the service: its caller gets these faults (test/protocols/rest/errors).
const methods = ThirdPartyService.methods.map(({ localName }) => [localName, () => ({})])
const routes = readRoutes(
  createInvokers([implement(ThirdPartyService, Object.fromEntries(methods))], {
    beforeDecoding: [],
    afterDecoding: [validation(createCheck())],
  }),
)

/** What is said of the fields, in the order in which it is said. */
async function faultsOf(name: string, body: unknown): Promise<string[]> {
  const { invoker, decode } = routes.find(({ path }) => path.endsWith(`/${name}`))!
  const parsed = JSON.parse(JSON.stringify(body))
  const call = async () => invoker.unary(() => decode(parsed), {} as never)
  const fault = await call().catch((error) => error)
  if (!(fault instanceof Fault)) return []
  const names = new Set(fault.fields.map(({ field }) => field))
  expect([fault.reason, fault.message]).toEqual([
    'validation_failed',
    `Invalid request: ${[...names].join(', ')}`,
  ])
  return fault.fields.map(({ field, message }) => `${field} ${message}`)
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

/** Values of a field, by what is said of them. */
type Cases = Readonly<Record<string, readonly unknown[]>>

const MISTYPED = { [NO_STRING]: [5, true, [], ['x'], {}] }
const NO_WHOLE = { [NO_NUMBER]: ['1', 1.5, true, [], {}, 1e300] }
const ABSENT = [undefined, null, '', ' \t\n ']
const TEXT = { [REQUIRED]: ABSENT, ...MISTYPED }

const FIELDS: Readonly<Record<string, Readonly<Record<string, Cases>>>> = {
  generateVirtualAccount: {
    reference: {
      ...TEXT,
      [PRINTABLE]: ['x'.repeat(101), 'a\nb', 'a\u0000b', 'a\u2028b', '\ud800'],
    },
    email: {
      ...TEXT,
      [EMAIL]: ['ada', 'ada@', '@example.com', 'a b@example.com', `${'x'.repeat(250)}@e.co`],
    },
    phone: {
      ...TEXT,
      [PHONE]: [
        '8012345678',
        '0801234567',
        '080123456789',
        '+2340',
        '+0123456789',
        '447911123456',
        '0801234567x',
        '+',
        '+1234567890123456',
        '0801 234 5678',
      ],
    },
    firstName: { ...TEXT, [NAME]: ['x'.repeat(101), 'A\u0007', '😀'.repeat(101)] },
    lastName: { ...TEXT, [NAME]: ['x'.repeat(101), 'A\tB'] },
    bank: { ...TEXT, [BANK]: ['GTB', '9psb', '9PSB,PROVIDUS', 'BANK_9PSB'] },
    idType: { ...MISTYPED, 'must be nin or bvn': ['NIN', 'passport'] },
    idNumber: {
      ...MISTYPED,
      'must be 11 digits': ['1234567890', '123456789012', '1234567890x', '١٢٣٤٥٦٧٨٩٠١'],
    },
  },
  getTransaction: {
    session_id: { ...TEXT, [SESSION]: ['x'.repeat(65), 'a b', "';--", 'a\u0000'] },
  },
  getVirtualAccount: {
    reference: {
      ...MISTYPED,
      'is required, or email is': ABSENT,
      [PRINTABLE]: ['x'.repeat(101), 'a\u0000b'],
    },
  },
  listTransactions: {
    page_size: { ...NO_WHOLE, 'must be 0 to 200': [-1, 201] },
    page_token: { ...MISTYPED, 'must be at most 500 characters': ['x'.repeat(501)] },
    reference: {
      ...MISTYPED,
      'must be at most 100 characters': ['x'.repeat(101)],
      'must not contain the character U+0000': ['a\u0000b'],
    },
    status: { ...MISTYPED, [STATUS]: ['success', 'DONE'] },
  },
  listEvents: {
    after: { ...NO_WHOLE, 'must be 0 or more': [-1] },
    limit: { ...NO_WHOLE, 'must be 0 to 500': [-1, 501] },
    kinds: { 'must be a list of strings': ['PAYMENT_NOTIFICATION', [1], 5, {}] },
  },
}

const ROWS = Object.entries(FIELDS).flatMap(([name, fields]) =>
  Object.entries(fields).map(([field, cases]) => [name, field, cases] as const),
)

describe('each field names what is wrong with its value', () => {
  test.each(ROWS)('%s %s', async (name, field, cases) => {
    for (const [message, values] of Object.entries(cases)) {
      for (const value of values) {
        const change = { [field]: value }
        const body = name === 'generateVirtualAccount' ? creation(change) : change
        expect([value, await faultsOf(name, body)]).toEqual([value, [`${field} ${message}`]])
      }
    }
  })

  test.each(['idType', 'idNumber'])('%s is required for PALMPAY', async (field) => {
    for (const value of [undefined, null, '', '  ']) {
      const identity = { bank: 'PALMPAY', idType: 'nin', idNumber: '12345678901' }
      const body = creation({ ...identity, [field]: value })
      expect(await faultsOf('generateVirtualAccount', body)).toEqual([
        `${field} is required when bank is PALMPAY`,
      ])
    }
  })

  test.each(['identityId', 'idType', 'idNumber'])('%s is required with otp', async (field) => {
    const verified = { identityId: 'id-1', otp: '123456', idType: 'nin', idNumber: '12345678901' }
    expect(await faultsOf('generateVirtualAccount', creation(verified))).toEqual([])
    const body = creation({ ...verified, [field]: '' })
    expect(await faultsOf('generateVirtualAccount', body)).toEqual([
      `${field} is required with otp`,
    ])
  })
})

test('phone numbers of Nigeria and of the world have no fault', async () => {
  const numbers = [
    '08012345678',
    '2348012345678',
    '+2348012345678',
    '+447911123456',
    '+14155550123',
  ]
  for (const phone of numbers) {
    expect([phone, await faultsOf('generateVirtualAccount', creation({ phone }))]).toEqual([
      phone,
      [],
    ])
  }
})

test.each([
  [
    'generateVirtualAccount',
    {
      idNumber: 12345678901,
      idType: 'x',
      bank: 'GTB',
      lastName: ['Obi'],
      phone: '1',
      email: null,
      reference: '',
    },
    [
      `reference ${REQUIRED}`,
      `email ${REQUIRED}`,
      `phone ${PHONE}`,
      `firstName ${REQUIRED}`,
      `lastName ${NO_STRING}`,
      `bank ${BANK}`,
      'idType must be nin or bvn',
      `idNumber ${NO_STRING}`,
    ],
  ],
  [
    'listTransactions',
    { page_size: 'x', status: 'x', reference: 5 },
    [`page_size ${NO_NUMBER}`, `reference ${NO_STRING}`, `status ${STATUS}`],
  ],
])('%s lists all faults at once, in the order of the fields: %j', async (name, body, expected) => {
  expect(await faultsOf(name, body)).toEqual(expected)
})
