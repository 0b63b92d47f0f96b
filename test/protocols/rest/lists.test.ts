import { readFile } from 'node:fs/promises'
import type { DescMethod, MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { ThirdPartyService } from '../../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import { TransactionStatus } from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  type RecordPaymentRequestSchema,
  TransactionService,
} from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { AMOUNT_MINOR_MAX } from '../../../src/core/money.ts'
import { useSharedService } from '../../support/service.ts'
import { data, type ScopedBusiness, scopedBusiness } from '../../thirdparty/scene.ts'
import { creation, until } from './rest.ts'

const service = useSharedService()

type Payment = MessageInitShape<typeof RecordPaymentRequestSchema>

interface Shown {
  readonly session_id: string
  readonly reference: string
  readonly status: string
  readonly created_at: string
}

/** What lists need that cannot list everything. */
const FILTERS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  listDeliveries: { eventId: 'evt_none' },
}

const STATUSES = ['PENDING', 'SUCCESS', 'FAILED'] as const
const FIRST_MS = Date.parse('2026-11-20T09:00:00Z')

let key: string
let businessId: string
let accounts: { number: string; reference: string; own: string }[]

/** 150 payments into three accounts, many of them at the very same time. */
const payments = Array.from({ length: 150 }, (_, index) => ({
  account: index % 3,
  sessionId: `page-${index}`,
  status: STATUSES[index % 7 === 0 ? 0 : index % 5 === 0 ? 2 : 1] as (typeof STATUSES)[number],
  paidAtMs: FIRST_MS + Math.floor(index / 10) * 60_000,
}))

async function record(rows: readonly Payment[]): Promise<void> {
  const client = service.client(TransactionService)
  const { results } = await client.recordPayments({ payments: [...rows] })
  expect(results.filter((result) => result.error !== '')).toEqual([])
}

beforeAll(async () => {
  ;({ key, id: businessId } = await service.business())
  accounts = []
  for (const own of ['a', 'b', 'c']) {
    const { body } = await service.post(
      'generateVirtualAccount/',
      key,
      creation({ reference: own }),
    )
    accounts.push({
      own,
      reference: body.data.reference,
      number: body.data.account[0].account_number,
    })
  }
  await record(
    payments.map(({ account, sessionId, status, paidAtMs }) => ({
      bank: Bank.BANK_9PSB,
      accountNumber: accounts[account]!.number,
      sessionId,
      amountMinor: 100n,
      status: TransactionStatus[status],
      paidAt: timestampFromMs(paidAtMs),
    })),
  )
})

/** Every page of a list, one after the other. */
async function pagesOf(pageSize: number, filter: Record<string, unknown>): Promise<Shown[][]> {
  const pages: Shown[][] = []
  let token: string | undefined
  do {
    const request = { ...filter, page_size: pageSize, page_token: token }
    const { status, text, body } = await service.post('listTransactions/', key, request)
    expect(status, text).toBe(200)
    pages.push(body.data.transactions)
    token = body.data.next_page_token
    expect(pages.length).toBeLessThan(200)
    expect(token).not.toBe('')
  } while (token !== undefined)
  return pages
}

const local = (epochMs: number) =>
  new Date(epochMs + 3_600_000).toISOString().slice(0, 19).replace('T', ' ')
const rfc3339 = (epochMs: number) => new Date(epochMs).toISOString()

describe('listTransactions', () => {
  const minute = fc.option(fc.integer({ min: -1, max: 16 }), { nil: undefined })
  const filters = fc.record({
    account: fc.constantFrom(undefined, 0, 1, 2),
    byOwn: fc.boolean(),
    status: fc.constantFrom(undefined, ...STATUSES),
    from: minute,
    to: minute,
    write: fc.constantFrom(local, rfc3339),
  })

  test('pages together are everything that the filter lets through, once, the latest first', () =>
    fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 60 }), filters, async (pageSize, filter) => {
        const { account, status, from, to } = filter
        const at = (minutes: number | undefined) =>
          minutes === undefined ? undefined : filter.write(FIRST_MS + minutes * 60_000)
        const chosen = account === undefined ? undefined : accounts[account]
        const reference = filter.byOwn ? chosen?.own : chosen?.reference
        const pages = await pagesOf(pageSize, { reference, status, from: at(from), to: at(to) })
        const expected = payments.filter(
          (payment) =>
            (account === undefined || payment.account === account) &&
            (status === undefined || payment.status === status) &&
            (from === undefined || payment.paidAtMs >= FIRST_MS + from * 60_000) &&
            (to === undefined || payment.paidAtMs < FIRST_MS + to * 60_000),
        )
        const found = pages.flat()
        expect(found.map((row) => row.session_id).sort()).toEqual(
          expected.map((row) => row.sessionId).sort(),
        )
        const times = found.map((row) => row.created_at)
        expect(times).toEqual([...times].sort().reverse())
        expect(pages.slice(0, -1).every((page) => page.length === pageSize)).toBe(true)
        expect(pages.length).toBe(Math.max(1, Math.ceil(expected.length / pageSize)))
      }),
      { numRuns: 30 },
    ))

  test('pages of any size have the same order', async () => {
    const whole = (await pagesOf(200, {})).flat()
    for (const size of [7, 149, 150]) expect((await pagesOf(size, {})).flat()).toEqual(whole)
  })

  test('a page has 50 rows by default', async () => {
    for (const body of [{}, { page_size: 0 }, { page_size: null }]) {
      const answer = await service.post('listTransactions/', key, body)
      expect(answer.body.data.transactions).toHaveLength(50)
    }
  })

  test('an unknown reference has no transactions', async () => {
    expect(await pagesOf(10, { reference: 'unknown' })).toEqual([[]])
  })

  test('rows added meanwhile neither shift nor repeat rows of later pages', async () => {
    const first = await service.post('listTransactions/', key, { page_size: 10, reference: 'a' })
    const row = { bank: Bank.BANK_9PSB, accountNumber: accounts[0]!.number, amountMinor: 1n }
    await record([{ ...row, sessionId: 'newer', paidAt: timestampFromMs(FIRST_MS + 99 * 60_000) }])
    const second = await service.post('listTransactions/', key, {
      page_size: 200,
      reference: 'a',
      page_token: first.body.data.next_page_token,
    })
    const sessions = [...first.body.data.transactions, ...second.body.data.transactions].map(
      (each: Shown) => each.session_id,
    )
    const expected = payments
      .filter((payment) => payment.account === 0)
      .map((each) => each.sessionId)
    expect(sessions.sort()).toEqual(expected.sort())
  })
})

describe('every list', () => {
  const pageOf = ({ output }: DescMethod) => output.fields.find(({ name }) => name === 'data')
  const lists = ThirdPartyService.methods.filter(
    (method) => pageOf(method)?.message?.field['nextPageToken'] !== undefined,
  )
  let scoped: ScopedBusiness

  beforeAll(async () => {
    scoped = await scopedBusiness(service)
  })

  test.each(lists)('$name has no next_page_token on its last page', async ({ localName }) => {
    const answer = await data(service, scoped.test, localName, FILTERS[localName])
    expect(answer).not.toHaveProperty('next_page_token')
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

describe('amounts', () => {
  test('are JSON numbers that say kobo exactly, with at most two decimals', async () => {
    const { body } = await service.post(
      'generateVirtualAccount/',
      key,
      creation({ reference: 'amounts' }),
    )
    const sample = fc.sample(fc.bigInt({ min: 1n, max: AMOUNT_MINOR_MAX }), {
      numRuns: 190,
      seed: 7,
    })
    const amounts = [1n, 9n, 10n, 99n, 100n, 101n, 110n, 123n, AMOUNT_MINOR_MAX - 1n, ...sample]
    amounts.push(AMOUNT_MINOR_MAX)
    await record(
      amounts.map((amountMinor, index) => ({
        bank: Bank.BANK_9PSB,
        accountNumber: body.data.account[0].account_number,
        sessionId: `amount-${index}`,
        amountMinor,
        paidAt: timestampFromMs(FIRST_MS - index * 1_000),
      })),
    )
    const request = { reference: 'amounts', page_size: 200 }
    const { text } = await service.post('listTransactions/', key, request)
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
    const { rows } = await service.database.pool.query(
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
