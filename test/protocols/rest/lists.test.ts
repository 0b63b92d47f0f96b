import { readFile } from 'node:fs/promises'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { AMOUNT_MINOR_MAX } from '../../../src/core/money.ts'
import { useSharedService } from '../../support/service.ts'
import { data, type ScopedBusiness, scopedBusiness } from '../../thirdparty/scene.ts'
import { creation, until } from './rest.ts'

const service = useSharedService()

/** What lists need that cannot list everything. */
const FILTERS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  listDeliveries: { eventId: 'evt_none' },
}

const FIRST_MS = Date.parse('2026-11-20T09:00:00Z')

let key: string
let businessId: string
let accountNumber: string

beforeAll(async () => {
  ;({ key, id: businessId } = await service.business())
  const { body } = await service.post('generateVirtualAccount/', key, creation())
  accountNumber = body.data.account[0].account_number
})

describe('every list', () => {
  let scoped: ScopedBusiness

  beforeAll(async () => {
    scoped = await scopedBusiness(service)
  })

  test('takes every value that the guide offers', async () => {
    const guide = await readFile('src/docs/rest-api.md', 'utf8')
    const offered = [
      ...guide.matchAll(/^\| `(?:\/v2\/thirdparty\/)?(list\w+)\/` \| (.*) \| .* \|$/gm),
    ]
    expect(offered.length).toBeGreaterThan(4)
    const asked: string[] = []
    for (const [, path = '', fields = ''] of offered) {
      for (const [, field = '', values = ''] of fields.matchAll(
        /`(\w+)\?` \(((?:`\w+`(?:, )?)+)\)/g,
      )) {
        for (const [, value] of values.matchAll(/`(\w+)`/g)) {
          await data(service, scoped.test, path, { ...FILTERS[path], [field]: value })
          asked.push(`${path} ${value}`)
        }
      }
    }
    expect(asked).toContain('listVirtualAccounts EXPIRED')
    expect(asked).toContain('listDeliveries FAILED')
  })
})

const tokenOf = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const BAD_TIMES = [
  ...['yesterday', '2026-01-01', '2026-02-30 10:00:00', '2026-13-01 10:00:00', '1700000000'],
  ...['2026-01-01T10:00:00', '2026-01-01 24:00:00', '2026-02-29T10:00:00Z'],
]

test.each([
  ['from', 'must be YYYY-MM-DD HH:MM:SS or RFC 3339', BAD_TIMES],
  ['to', 'must be YYYY-MM-DD HH:MM:SS or RFC 3339', BAD_TIMES],
  [
    'page_token',
    'is not a token of this list',
    [
      ...['x', 'W10', tokenOf([]), tokenOf(['1']), tokenOf(['x', 'y']), tokenOf(['-1', 'y'])],
      ...[tokenOf([1, 2]), tokenOf(['1', '\0']), tokenOf(['999999999999999', 'y'])],
      tokenOf(['1e3', 'y']),
    ],
  ],
])('a list refuses another %s: it %s', async (field, message, values) => {
  for (const value of values) {
    const { status, body } = await service.post('listTransactions/', key, { [field]: value })
    expect([value, status, body.errors]).toEqual([value, 422, [{ field, message }]])
  }
})

describe('amounts', () => {
  test('are JSON numbers that say kobo exactly, with at most two decimals', async () => {
    const sample = fc.sample(fc.bigInt({ min: 1n, max: AMOUNT_MINOR_MAX }), {
      numRuns: 190,
      seed: 7,
    })
    const amounts = [1n, 9n, 10n, 99n, 100n, 101n, 110n, 123n, AMOUNT_MINOR_MAX - 1n, ...sample]
    amounts.push(AMOUNT_MINOR_MAX)
    const payments = amounts.map((amountMinor, index) => ({
      bank: Bank.BANK_9PSB,
      accountNumber,
      sessionId: `amount-${index}`,
      amountMinor,
      paidAt: timestampFromMs(FIRST_MS - index * 1_000),
    }))
    const { results } = await service.client(TransactionService).recordPayments({ payments })
    expect(results.filter((result) => result.error !== '')).toEqual([])
    const { text } = await service.post('listTransactions/', key, { page_size: 200 })
    const shown = [...text.matchAll(/"amount":([^,]+),/g)].map((match) => match[1])
    expect(shown).toEqual(
      amounts.map((kobo) =>
        `${kobo / 100n}.${`${kobo % 100n}`.padStart(2, '0')}`.replace(/\.?0{1,2}$/, ''),
      ),
    )
  })
})

describe('listEvents', () => {
  test('returns a business’s events by sequence, without a gap, for any page size', async () => {
    const { rows } = await service.database.durablePool.query(
      'select count(*)::int as count from outbox where business_id = $1',
      [businessId],
    )
    const total: number = rows[0].count
    const all = async (limit: number) => {
      const sequences: number[] = []
      for (let after = 0; ; ) {
        const { body } = await service.post('listEvents/', key, { after, limit })
        const page: number[] = body.data.events.map(
          (event: { data: { sequence: number } }) => event.data.sequence,
        )
        expect(page.length).toBeLessThanOrEqual(limit)
        sequences.push(...page)
        after = sequences.at(-1) ?? 0
        if (page.length < limit) return sequences
      }
    }
    await until(
      () => all(500),
      (sequences) => sequences.length === total,
    )
    const expected = Array.from({ length: total }, (_, index) => index + 1)
    for (const limit of [11, 100, 500]) expect(await all(limit)).toEqual(expected)
  })
})
