import { readFile } from 'node:fs/promises'
import { beforeAll, expect, test } from 'vitest'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { callerEnv, runHere } from '../../cli/run-inflow.ts'
import { useService } from '../../support/service.ts'
import { waitFor } from '../../support/wait-for.ts'
import { data, scopedBusiness } from '../../thirdparty/scene.ts'
import { creation } from './rest.ts'

const service = useService({ BANK_PROVIDUS_NAME: 'Providus MFB' })

let key: string
let businessId: string

beforeAll(async () => {
  ;({ key, id: businessId } = await service.business())
})

/** Opens an account. @returns its number */
async function open(bank: 'PROVIDUS' | '9PSB') {
  const body = creation({ bank, reference: `at-${bank}` })
  const { data } = (await service.post('generateVirtualAccount/', key, body)).body
  return data.account[0] as { account_number: string; bank_name: string }
}

async function pay(bank: Bank, accountNumber: string, sessionId: string, amountMinor: bigint) {
  const payer = { name: 'BOLA', accountNumber: '1', bankCode: '058', bankName: 'GTBank' }
  await service.client(TransactionService).recordPayment({
    bank,
    accountNumber,
    sessionId,
    amountMinor,
    payer,
    narration: 'rent',
  })
}

const list = async (body: object) => (await service.post('listTransactions/', key, body)).body.data

test('a session id used at two banks returns both, and each look-up says so', async () => {
  const { account_number: first } = await open('9PSB')
  const { account_number: second } = await open('PROVIDUS')
  await pay(Bank.BANK_9PSB, first, 'twice', 100n)
  const alone = await service.post('getTransaction/', key, { session_id: 'twice' })
  expect(alone.body.data).not.toHaveProperty('also_at_bank')
  await pay(Bank.BANK_PROVIDUS, second, 'twice', 200n)
  const both = await list({ session_id: 'twice' })
  expect(both.transactions.map(({ bank, amount }: never) => [bank, amount]).sort()).toEqual([
    ['9PSB', 1],
    ['PROVIDUS', 2],
  ])
  const { body } = await service.post('getTransaction/', key, { session_id: 'twice' })
  expect([body.data.bank, body.data.also_at_bank].sort()).toEqual(['9PSB', 'PROVIDUS'])

  const filtered = await list({ session_id: 'twice', reference: 'at-PROVIDUS' })
  expect(filtered.transactions).toMatchObject([{ bank: 'PROVIDUS' }])
  const stranger = await service.business()
  const others = await service.post('listTransactions/', stranger.key, { session_id: 'twice' })
  expect(others.body.data.transactions).toEqual([])
  const { stdout } = await runHere(
    ['transaction', 'list', '--business', businessId, '--session', 'twice'],
    callerEnv(service),
  )
  expect(stdout.match(/twice/g)).toHaveLength(2)
  const paged = { session_id: 'twice', recorded_from: '2026-01-01 00:00:00' }
  const refused = await service.post('listTransactions/', key, paged)
  expect([refused.status, refused.body.errors[0].field]).toEqual([422, 'session_id'])
})

test('the displayed name of a bank is a setting, in responses and in events', async () => {
  expect((await open('PROVIDUS')).bank_name).toBe('Providus MFB')
  await waitFor(async () => {
    const { body } = await service.post('listEvents/', key, {})
    const names = body.data.events.map(({ data }: never) => (data as never)['account'])
    expect(names).toContainEqual(expect.objectContaining({ bank_name: 'Providus MFB' }))
  })
  expect((await open('9PSB')).bank_name).toBe('9 Payment Service Bank')
})

/** What lists need that cannot list everything. */
const FILTERS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  listDeliveries: { eventId: 'evt_none' },
}

test('every list takes every value that the guide offers', async () => {
  const scoped = await scopedBusiness(service)
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

const tokenOf = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const BAD_TIMES = [
  'yesterday',
  '2026-01-01',
  '2026-02-30 10:00:00',
  '2026-13-01 10:00:00',
  '1700000000',
  '2026-01-01T10:00:00',
  '2026-01-01 24:00:00',
  '2026-02-29T10:00:00Z',
]

test.each([
  ['from', 'must be YYYY-MM-DD HH:MM:SS or RFC 3339', BAD_TIMES],
  ['to', 'must be YYYY-MM-DD HH:MM:SS or RFC 3339', BAD_TIMES],
  [
    'page_token',
    'is not a token of this list',
    [
      'x',
      'W10',
      tokenOf([]),
      tokenOf(['1']),
      tokenOf(['x', 'y']),
      tokenOf(['-1', 'y']),
      tokenOf([1, 2]),
      tokenOf(['1', '\0']),
      tokenOf(['999999999999999', 'y']),
      tokenOf(['1e3', 'y']),
    ],
  ],
])('a list refuses another %s: it %s', async (field, message, values) => {
  for (const value of values) {
    const { status, body } = await service.post('listTransactions/', key, { [field]: value })
    expect([value, status, body.errors]).toEqual([value, 422, [{ field, message }]])
  }
})
