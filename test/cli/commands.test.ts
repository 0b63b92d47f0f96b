import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { tamper } from '../support/database.ts'
import { ADMIN_TOKEN, useSharedService } from '../support/service.ts'
import { inflow, runHere, temporaryFolder } from './run-inflow.ts'

const service = useSharedService()

const TEST_CUSTOMER = {
  ...{ reference: 'test-order', firstName: 'Ada', lastName: 'Obi' },
  ...{ email: 'ada@example.com', phone: '08012345678' },
}
let businessId: string
let account: { number: string; reference: string }

beforeAll(async () => {
  businessId = (await service.business('Acme\u0301 Stores')).id
  account = await openAccount('order-1')
})

async function openAccount(reference: string) {
  const response = await service.client(AccountService).createAccount({
    businessId,
    reference,
    bank: Bank.BANK_9PSB,
    firstName: 'Ada',
    lastName: 'Obi',
    email: 'ada@example.com',
    phone: '08012345678',
  })
  return { number: response.account!.accountNumber, reference: response.account!.reference }
}

/** Records a payment into an account at the given time. */
async function pay(
  to: string,
  sessionId: string,
  amountMinor: bigint,
  paidAt: string,
  status: TransactionStatus = TransactionStatus.SUCCESS,
) {
  await service.client(TransactionService).recordPayment({
    bank: Bank.BANK_9PSB,
    accountNumber: to,
    sessionId,
    amountMinor,
    paidAt: { seconds: BigInt(Date.parse(paidAt) / 1000) },
    payer: { name: 'Chidi' },
    status,
  })
}

/** Stores a payer's name as it was stored before names were cleaned. */
async function storePayer(sessionId: string, name: string) {
  const text = 'update transaction set payer_name = $1 where session_id = $2'
  expect(await tamper(service.database.durablePool, text, [name, sessionId])).toBe(1)
}

const env = () => ({ INFLOW_GRPC_URL: service.grpcUrl, INFLOW_TOKEN: ADMIN_TOKEN })

async function run(...args: string[]) {
  const outcome = await runHere(args, env())
  expect(outcome.stdout).not.toContain('\u001b')
  return outcome
}

const TIME = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`

test('a list is an aligned table, with the token of its next page on standard error', async () => {
  const { id } = await service.business('Later')
  const first = await run('business', 'list', '--limit', '1')
  expect(first.code).toBe(0)
  const space = ' '.repeat(id.length - 2)
  expect(first.stdout).toMatch(
    new RegExp(`^ID${space}  NAME   ALIAS  CREATED AT\n${id}  Later  Later  ${TIME}\n$`),
  )
  const [, token] = /^More results: --page-token (\S+), or --paginate\n$/.exec(first.stderr) ?? []
  const second = await run('business', 'list', '--limit', '1', '--page-token', token ?? '')
  // The accent takes no column of its own.
  expect(second.stdout).toMatch(/^ID +NAME {9}ALIAS {8}CREATED AT\n/)
  expect(second.stdout).toContain(`${businessId}  Acme\u0301 Stores  Acme\u0301 Stores  20`)
})

test('--paginate prints all pages, each with its head or as a document', async () => {
  const { id } = await service.business('Of a page of its own')
  await service.business('The newest')
  const all = JSON.parse((await run('business', 'list', '--limit', '200', '--json')).stdout)
  const list = ['business', 'list', '--limit', '1', '--paginate']
  const { stdout, stderr } = await run(...list)
  expect([stdout.match(/^ID /gm)?.length, stderr]).toEqual([all.businesses.length, ''])
  expect(stdout).toContain(`${id}  Of a page of its own`)
  const documents = (await run(...list, '--json')).stdout.split(/^(?<=}\n)(?={)/m)
  expect(documents.map((each) => JSON.parse(each).businesses[0])).toEqual(all.businesses)
})

test('amounts are right-aligned with two decimals, and control characters are replaced', async () => {
  const { number, reference } = await openAccount('aligned')
  await pay(number, 'ALIGNED-1', 150_050n, '2026-11-02T10:00:00Z')
  await pay(number, 'ALIGNED-2', 7n, '2026-11-01T10:00:00Z', TransactionStatus.PENDING)
  await storePayer('ALIGNED-1', 'Chidi\u001b[2J')
  const list = ['transaction', 'list', '--business', businessId, '--reference', reference]
  const { stdout } = await run(...list)
  const [head, first, second] = stdout.split('\n')
  expect(head).toMatch(/^PAID AT +SESSION +AMOUNT {2}STATUS +SETTLED/)
  expect(first).toMatch(/^2026-11-02 10:00:00 {2}ALIGNED-1 {2}1500\.50 {2}SUCCESS {2}no /)
  expect(second).toMatch(/^2026-11-01 10:00:00 {2}ALIGNED-2 {5}0\.07 {2}PENDING {2}no /)
  expect(first).toMatch(/Chidi\u{fffd}\[2J$/u)
})

test('JSON contains no character that a terminal acts on, and is read as what was stored', async () => {
  const { number } = await openAccount('escapes')
  const name = 'Chidi\u009b2J\u202eidihC'
  await pay(number, 'ESCAPES-1', 100n, '2026-11-02T10:00:00Z')
  await storePayer('ESCAPES-1', name)
  const { stdout } = await run(
    'transaction',
    'get',
    'ESCAPES-1',
    '--business',
    businessId,
    '--json',
  )
  expect(stdout).toContain('"Chidi\\u009b2J\\u202eidihC"')
  expect(stdout).toMatch(/^(?:[^\p{Cc}\p{Cf}]|\n)*$/u)
  expect(JSON.parse(stdout).transaction.payer.name).toBe(name)
})

test('an empty list prints nothing but a note', async () => {
  const { id } = await service.business('Stranger')
  const args = ['transaction', 'list', '--business', id]
  expect(await run(...args)).toEqual({ code: 0, stdout: '', stderr: 'None found.\n' })
  const { stdout } = await run(...args, '--json')
  expect(JSON.parse(stdout)).toEqual({ transactions: [], nextPageToken: '' })
})

test('filters reach the service', async () => {
  const { number, reference } = await openAccount('filtered')
  const { FAILED, SUCCESS } = TransactionStatus
  const sessions = [
    ['BEFORE', '2026-09-30T23:59:59Z', FAILED],
    ['AT-FROM', '2026-10-01T00:00:00Z', FAILED],
    ['PAID', '2026-10-10T00:00:00Z', SUCCESS],
    ['LAST', '2026-10-30T22:59:59Z', FAILED],
    ['AT-TO', '2026-10-30T23:00:00Z', FAILED],
  ] as const
  for (const [name, paidAt, status] of sessions) await pay(number, name, 100n, paidAt, status)
  await pay(account.number, 'ELSEWHERE', 100n, '2026-10-10T00:00:00Z', FAILED)
  const list = [
    ...['transaction', 'list', '--business', businessId, '--reference', reference, '--json'],
    ...['--status', 'failed', '--from', '2026-10-01 00:00:00', '--to', '2026-10-31T00:00:00+01:00'],
    ...['--limit', '1'],
  ]
  const first = JSON.parse((await run(...list)).stdout)
  expect(first.transactions).toMatchObject([{ sessionId: 'LAST' }])
  const second = JSON.parse((await run(...list, '--page-token', first.nextPageToken)).stdout)
  expect(second).toMatchObject({ transactions: [{ sessionId: 'AT-FROM' }], nextPageToken: '' })
})

test('--json is one document with every field', async () => {
  await pay(account.number, 'JSON-1', 150_050n, '2026-11-20T10:00:00Z')
  const args = ['transaction', 'get', 'JSON-1', '--business', businessId, '--json']
  const { code, stdout, stderr } = await run(...args)
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(JSON.parse(stdout)).toMatchObject({
    transaction: {
      sessionId: 'JSON-1',
      amountMinor: '150050',
      status: 'TRANSACTION_STATUS_SUCCESS',
      settled: false,
      paidAt: '2026-11-20T10:00:00Z',
      payer: { name: 'Chidi', bankCode: '' },
      recorder: { kind: 'RECORDER_KIND_TOKEN', id: 'bootstrap' },
    },
  })
  const shown = await run(...args.slice(0, -1))
  expect(shown.stdout).toMatch(/^Recorded by +token bootstrap$/m)
})

test('a date is its first second in DISPLAY_TIME_ZONE', async () => {
  const { number, reference } = await openAccount('dated')
  await pay(number, 'DATE-1', 100n, '2026-11-18T22:59:59Z')
  await pay(number, 'DATE-2', 100n, '2026-11-18T23:00:00Z')
  await pay(number, 'DATE-3', 100n, '2026-11-19T23:00:00Z')
  const list = ['transaction', 'list', '--business', businessId, '--reference', reference, '--json']
  const { stdout } = await inflow([...list, '--from', '2026-11-19', '--to', '2026-11-20'], {
    env: { ...env(), DISPLAY_TIME_ZONE: 'Africa/Lagos' },
  })
  expect(JSON.parse(stdout).transactions).toMatchObject([{ sessionId: 'DATE-2' }])
})

test('times are shown in DISPLAY_TIME_ZONE', async () => {
  await pay(account.number, 'ZONE-1', 100n, '2026-11-20T10:00:00Z')
  const args = ['transaction', 'get', 'ZONE-1', '--business', businessId]
  const { stdout } = await inflow(args, { env: { ...env(), DISPLAY_TIME_ZONE: 'Africa/Lagos' } })
  expect(stdout).toMatch(/^Paid at +2026-11-20 11:00:00$/m)
})

test('secrets are printed with a note that they are shown once, and keys are revoked', async () => {
  const created = await run('business', 'create', '--name', 'Shop', '--alias', 'Sh')
  const secretKey = /^Secret key +(\S+)$/m.exec(created.stdout)?.[1]
  expect(await service.post('getTransaction/', secretKey, {})).toMatchObject({ status: 422 })
  const id = /^Id +(\S+)$/m.exec(created.stdout)?.[1] ?? ''
  const expires = ['--expires-at', '2099-01-01T00:00:00Z']
  const issued = await run('key', 'issue', '--business', id, ...expires)
  expect(issued.stdout).toMatch(/^Secret key +\S+$/m)
  for (const { code, stderr } of [created, issued]) {
    expect({ code, stderr }).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/shown (only|this) once/),
    })
  }
  const keyId = /^Id +(\S+)$/m.exec(issued.stdout)?.[1] ?? ''
  const revoked = await run('key', 'revoke', keyId, '--yes')
  expect(revoked.stdout).toMatch(new RegExp(`^Revoked at +${TIME}$`, 'm'))
  const listed = await run('key', 'list', '--business', id)
  const row = listed.stdout.split('\n').find((line) => line.startsWith(keyId))
  expect(row).toMatch(
    new RegExp(`^\\S+ +\\S+ +live +${TIME} +- +2099-01-01 00:00:00 +${TIME} +- +anywhere$`),
  )
})

test('a test key is issued for some addresses, changed, and rotated', async () => {
  const { id } = await service.business('Keys')
  const idOf = (text: string) => /^Id +(\S+)$/m.exec(text)?.[1] ?? ''
  const allow = ['--allow', '203.0.113.0/24', '2001:DB8::1']
  const issued = await run('key', 'issue', '--business', id, '--test', ...allow)
  expect(issued.stdout).toMatch(/^Mode +test$/m)
  expect(issued.stdout).toMatch(/^Allowed from +203\.0\.113\.0\/24,2001:db8::1\/128$/m)
  expect(issued.stdout).toMatch(/^Secret key +sk_test_\S+$/m)
  const keyId = idOf(issued.stdout)
  const updated = await run('key', 'update', keyId, '--any-address')
  expect(updated.stdout).toMatch(/^Allowed from +anywhere$/m)
  const wrong = await run('key', 'update', keyId, '--allow', 'example.com')
  expect(wrong).toMatchObject({ code: 1, stderr: expect.stringMatching(/allowedCidrs\[0\]: must/) })
  const rotated = await run('key', 'rotate', keyId, '--overlap', '0', '--yes')
  expect(rotated.stdout).toMatch(/^Secret key +sk_test_\S+$/m)
  expect(rotated.stderr).toMatch(new RegExp(`^${keyId} is valid until ${TIME}\\.$`, 'm'))
  const again = await run('key', 'rotate', keyId)
  expect(again).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/expired \(key_inactive\)/),
  })
  const first = await run('key', 'list', '--business', id, '--limit', '1')
  expect(first.stdout).toContain(idOf(rotated.stdout))
  expect(first.stderr).toMatch(/More results: --page-token/)
})

test('a business is renamed, and shown after the change', async () => {
  const { id } = await service.business('Before')
  const renamed = await run('business', 'update', id, '--name', 'After', '--alias', 'Aft')
  expect(renamed.stdout).toMatch(/^Name +After$/m)
  expect(renamed.stdout).toMatch(/^Alias +Aft$/m)
  const kept = await run('business', 'update', id)
  expect(kept.stdout).toBe(renamed.stdout)
})

test('the rate limit of a business is set and reset', async () => {
  const { id } = await service.business('Limited')
  const limit = async (text: string) => {
    const { stdout } = await run('business', 'update', id, '--rate-limit', text)
    return /^Rate limit +(.*)$/m.exec(stdout)?.[1]
  }
  expect(await limit('500/1000')).toBe('500/1000')
  expect(await limit('70')).toBe('70')
  expect(await limit('default')).toBeUndefined()
  const refused = await run('business', 'update', id, '--rate-limit', 'fast')
  expect(refused.code).not.toBe(0)
  expect(refused.stderr).toContain('Must be like 500/1000 or 500, or "default".')
})

test('lists show the mode, and are filtered by it', async () => {
  const { id } = await service.business('Modes')
  const create = ['account', 'create', '--business', id, '--reference', 'r-1', '--bank', '9PSB']
  const who = ['--first-name', 'Ada', '--last-name', 'Obi', '--email', 'a@b.co']
  const phone = ['--phone', '08012345678']
  const live = await run(...create, ...who, ...phone)
  const inTest = await run(...create, ...who, ...phone, '--test')
  expect(live.stdout).toMatch(/^Mode +live$/m)
  expect(inTest.stdout).toMatch(/^Mode +test$/m)
  const list = ['account', 'list', '--business', id]
  const lines = (text: string) => text.trim().split('\n').slice(1)
  expect(lines((await run(...list)).stdout)).toHaveLength(2)
  for (const mode of ['live', 'test']) {
    const { stdout } = await run(...list, `--${mode}`)
    expect(lines(stdout)).toEqual([expect.stringMatching(` ${mode} `)])
  }
  const both = await run(...list, '--live', '--test')
  expect(both).toMatchObject({ code: 2, stderr: expect.stringContaining('--test') })
})

const CREATE = [
  ...['account', 'create', '--bank', 'palmpay', '--first-name', 'Ada', '--last-name', 'Obi'],
  ...['--email', 'ada@example.com', '--phone', '08012345678', '--reference', 'again'],
  ...['--id-type', 'bvn'],
]

test('an account is opened, shown and listed', async () => {
  const file = join(temporaryFolder(), 'number')
  writeFileSync(file, '12345678901\n')
  const create = [...CREATE, '--business', businessId, '--id-number-file', file]
  const created = await run(...create)
  expect(created).toMatchObject({ code: 0, stderr: '' })
  const number = /^Number +(\d{10})$/m.exec(created.stdout)?.[1]
  const repeated = await run(...create)
  expect(repeated).toEqual({
    code: 0,
    stdout: created.stdout,
    stderr: 'The account was already open.\n',
  })
  const shown = await run('account', 'get', 'again', '--business', businessId)
  expect(shown.stdout).toBe(created.stdout)
  expect(shown.stdout).toMatch(/^Customer +Ada Obi$/m)
  const listed = await run('account', 'list', '--status', 'ACTIVE', '--limit', '1')
  expect(listed.stdout).toMatch(
    new RegExp(
      `^R-\\w+ +again +live +PALMPAY +${number} +Acme\u0301 Stores/Ada Obi +ACTIVE +${TIME}$`,
      'm',
    ),
  )
  const closed = await run('account', 'list', '--business', businessId, '--status', 'CLOSED')
  expect(closed.stdout).toBe('')
})

test('an identity number is not accepted on the command line, and not repeated', async () => {
  for (const verb of [CREATE, ['account', 'list']]) {
    const refused = await run(...verb, '--id-number', '12345678901')
    expect(refused.code).toBe(2)
    expect(refused.stderr).toMatch(/^error: an identity number must not be on the command line\n/)
    expect(refused.stderr).toContain('--id-number-file')
    expect(refused.stderr + refused.stdout).not.toContain('12345678901')
  }
})

test('a simulated amount is exact to the kobo, however large', async () => {
  const amount = '9007199254740.93'
  const simulate = ['transfer', 'simulate', '--account', account.number, '--session', 'LARGE-1']
  const { stdout } = await run(...simulate, '--amount', amount, '--payer', 'Chidi')
  expect(stdout).toMatch(/^Outcome +RECORDED$/m)
  expect(stdout).toMatch(/^Amount +9007199254740\.93$/m)
  expect(stdout).toMatch(/^Payer +Chidi$/m)
  const { transaction } = await service
    .client(TransactionService)
    .getTransaction({ businessId, sessionId: 'LARGE-1' })
  expect(transaction!.amountMinor).toBe(900_719_925_474_093n)

  const repeated = await run(...simulate, '--amount', amount)
  expect(repeated).toMatchObject({ code: 0, stderr: expect.stringMatching(/already recorded/) })
  expect(repeated.stdout).toMatch(/^Outcome +DUPLICATE$/m)
  const other = await run(...simulate, '--amount', '1')
  expect(other).toMatchObject({ code: 0, stderr: expect.stringMatching(/another amount/) })
  expect(other.stdout).toMatch(/^Outcome +CONFLICT$/m)
})

test('an endpoint is added with its secret, listed and removed', async () => {
  const hook = ['--url', 'https://shop.example.com/hooks', '--kind', 'PAYMENT_NOTIFICATION']
  const added = await run('webhook', 'add', '--business', businessId, ...hook)
  expect(added).toMatchObject({ code: 0, stderr: expect.stringMatching(/shown only once/) })
  expect(added.stdout).toMatch(/^Secret +whsec_\S+$/m)
  const id = /^Id +(\S+)$/m.exec(added.stdout)?.[1] ?? ''
  const listed = await run('webhook', 'list', '--business', businessId)
  expect(listed.stdout).toContain(`${id}  live  https://shop.example.com/hooks  `)
  const removed = await run('webhook', 'remove', id, '--yes')
  expect(removed).toEqual({ code: 0, stdout: '', stderr: `Removed ${id}.\n` })
})

test('settlements are listed of one mode, or of both', async () => {
  const { client } = service
  const test = { businessId, bank: Bank.BANK_9PSB, ...TEST_CUSTOMER, test: true }
  const { account: opened } = await client(AccountService).createAccount(test)
  await pay(opened!.accountNumber, 'of-test-mode', 100n, '2026-11-20T09:00:00Z')
  await run('settle', 'run', '--business', businessId, '--force', '--test', '--yes')
  await run('settle', 'run', '--business', businessId, '--force', '--yes')
  const modes = async (...args: string[]) => {
    const { stdout } = await run('settle', 'list', '--business', businessId, ...args)
    return stdout.match(/ (live|test) /g)?.map((mode) => mode.trim())
  }
  expect(await modes('--test')).toEqual(['test'])
  expect((await modes())?.sort()).toEqual(['live', 'test'])
})
