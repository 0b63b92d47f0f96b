import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { MAGIC_PHONES } from '../../src/banks/sandbox.ts'
import { payerAt } from '../payouts/scene.ts'
import { temporaryFolder } from '../support/folder.ts'
import { CUSTOMER } from '../support/opened-account.ts'
import { useSharedService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { callerEnv, inflow, runHere } from './run-inflow.ts'

const service = useSharedService()

let businessId: string
let account: { number: string; reference: string }

beforeAll(async () => {
  businessId = (await service.business('Acme Stores')).id
  account = await openAccount('order-1')
})

async function openAccount(reference: string, phone = CUSTOMER.phone) {
  const bank = Bank.BANK_9PSB
  const request = { businessId, reference, bank, ...CUSTOMER, phone }
  const response = await service.client(AccountService).createAccount(request)
  return { number: response.account!.accountNumber, reference: response.account!.reference }
}

/** Opens an account that stays pending. */
const openPending = (reference: string) =>
  openAccount(reference, MAGIC_PHONES.refuses).catch(() => undefined)

/** Records a payment of a naira into an account at the given time. */
async function pay(to: string, sessionId: string, paidAt: string) {
  await service.client(TransactionService).recordPayment({
    bank: Bank.BANK_9PSB,
    accountNumber: to,
    sessionId,
    amountMinor: 100n,
    paidAt: { seconds: BigInt(Date.parse(paidAt) / 1000) },
    payer: { name: 'Chidi' },
  })
}

const env = () => callerEnv(service)
const run = (...args: string[]) => runHere(args, env())
const ofBusiness = () => ['--business', businessId]

const TIME = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`
const idOf = (text: string) => /^Id +(\S+)$/m.exec(text)?.[1] ?? ''

test('a list is an aligned table, with the token of its next page on standard error', async () => {
  await service.business('Acme\u0301 Stores')
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
})

test('--paginate prints all pages, each with its head or as a document', async () => {
  const { id } = await service.business()
  await run('key', 'issue', '--business', id)
  const list = ['key', 'list', '--business', id]
  const all = JSON.parse((await run(...list, '--json')).stdout)
  const pages = [...list, '--limit', '1', '--paginate']
  const { stdout, stderr } = await run(...pages)
  expect([stdout.match(/^ID /gm)?.length, stderr]).toEqual([2, ''])
  const documents = (await run(...pages, '--json')).stdout.split(/^(?<=}\n)(?={)/m)
  expect(documents.map((each) => JSON.parse(each).keys[0])).toEqual(all.keys)
})

test('an empty list prints nothing but a note', async () => {
  const { id } = await service.business()
  const args = ['transaction', 'list', '--business', id]
  expect(await run(...args)).toEqual({ code: 0, stdout: '', stderr: 'None found.\n' })
  const { stdout } = await run(...args, '--json')
  expect(JSON.parse(stdout)).toEqual({ transactions: [], nextPageToken: '' })
})

test('--json is one document with every field', async () => {
  await pay(account.number, 'JSON-1', '2026-11-20T10:00:00Z')
  const args = ['transaction', 'get', 'JSON-1', ...ofBusiness()]
  const { code, stdout, stderr } = await run(...args, '--json')
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(JSON.parse(stdout).transaction).toMatchObject({
    sessionId: 'JSON-1',
    amountMinor: '100',
    status: 'TRANSACTION_STATUS_SUCCESS',
    settled: false,
    paidAt: '2026-11-20T10:00:00Z',
    payer: { name: 'Chidi', bankCode: '' },
    recorder: { kind: 'RECORDER_KIND_TOKEN', id: 'bootstrap' },
  })
  expect((await run(...args)).stdout).toMatch(/^Recorded by +token bootstrap$/m)
})

test('times are read and shown in DISPLAY_TIME_ZONE, where a date is its first second', async () => {
  const { number, reference } = await openAccount('dated')
  await pay(number, 'DATE-1', '2026-11-18T22:59:59Z')
  await pay(number, 'DATE-2', '2026-11-18T23:00:00Z')
  await pay(number, 'DATE-3', '2026-11-19T23:00:00Z')
  const list = ['transaction', 'list', ...ofBusiness(), '--reference', reference]
  const { stdout } = await inflow([...list, '--from', '2026-11-19', '--to', '2026-11-20'], {
    env: { ...env(), DISPLAY_TIME_ZONE: 'Africa/Lagos' },
  })
  expect(stdout).toMatch(/^PAID AT [^\n]*\n2026-11-19 00:00:00 {2}DATE-2 [^\n]*\n$/)
})

test('a summary has a row for each status, and the total', async () => {
  const { number, reference } = await openAccount('summed')
  await pay(number, 'SUM-1', '2026-11-18T22:59:59Z')
  await pay(number, 'SUM-2', '2026-11-18T23:00:00Z')
  const failed = { bank: Bank.BANK_9PSB, accountNumber: number, sessionId: 'SUM-3' }
  const status = TransactionStatus.FAILED
  await service.client(TransactionService).recordPayment({ ...failed, amountMinor: 50n, status })
  const summary = ['transaction', 'summary', ...ofBusiness(), '--reference', reference]
  expect((await run(...summary)).stdout.split('\n')).toEqual([
    'STATUS   COUNT  AMOUNT',
    'SUCCESS      2    2.00',
    'FAILED       1    0.50',
    'total        3    2.50',
    '',
  ])
  const { stdout } = await run(
    ...summary,
    '--status',
    'failed',
    '--email',
    CUSTOMER.email,
    '--json',
  )
  expect(JSON.parse(stdout)).toMatchObject({ count: 1, amountMinor: '50' })
})

test('a key is shown once, allowed from some addresses, changed, rotated and revoked', async () => {
  const { stdout: business } = await run('business', 'create', '--name', 'Shop', '--alias', 'Sh')
  const secretKey = /^Secret key +(\S+)$/m.exec(business)?.[1]
  expect(await service.post('getTransaction/', secretKey, {})).toMatchObject({ status: 422 })
  const own = ['--business', idOf(business)]
  const options = ['--allow', '203.0.113.0/24', '2001:DB8::1', '--expires-at', '2099-01-01']
  const issued = await run('key', 'issue', ...own, '--test', ...options)
  expect(issued.stdout).toMatch(/^Mode +test$/m)
  expect(issued.stdout).toMatch(/^Allowed from +203\.0\.113\.0\/24,2001:db8::1\/128$/m)
  expect(issued.stdout).toMatch(/^Secret key +sk_test_\S+$/m)
  expect(issued.stderr).toBe('The secret key is shown only once: store it now.\n')
  const keyId = idOf(issued.stdout)
  const updated = await run('key', 'update', keyId, '--any-address')
  expect(updated.stdout).toMatch(/^Allowed from +anywhere$/m)
  const rotated = await run('key', 'rotate', keyId, '--overlap', '0', '--yes')
  expect(rotated.stdout).toMatch(/^Secret key +sk_test_\S+$/m)
  expect(rotated.stderr).toMatch(new RegExp(`^${keyId} is valid until ${TIME}\\.$`, 'm'))
  const revoked = await run('key', 'revoke', idOf(rotated.stdout), '--yes')
  expect(revoked.stdout).toMatch(new RegExp(`^Revoked at +${TIME}$`, 'm'))
})

test('a business is renamed, and its rate limit set and reset', async () => {
  const { id } = await service.business('Before')
  const update = (...args: string[]) => run('business', 'update', id, ...args)
  expect((await update('--name', 'After', '--alias', 'Aft')).stdout).toMatch(/^Name +After$/m)
  const limit = async (text: string) =>
    /^Rate limit +(.*)$/m.exec((await update('--rate-limit', text)).stdout)?.[1]
  expect(await limit('500/1000')).toBe('500/1000')
  expect(await limit('70')).toBe('70')
  expect(await limit('default')).toBeUndefined()
  const { stdout } = await update()
  expect(stdout).toMatch(/^Alias +Aft$/m)
})

const CREATE = [
  'account',
  'create',
  '--first-name',
  'Ada',
  '--last-name',
  'Obi',
  '--email',
  'ada@example.com',
  '--phone',
  '08012345678',
]

const OF_PALMPAY = [...CREATE, '--bank', 'palmpay', '--reference', 'again', '--id-type', 'bvn']

test('an account is opened, shown and listed', async () => {
  const file = join(temporaryFolder(), 'number')
  writeFileSync(file, '12345678901\n')
  const create = [...OF_PALMPAY, ...ofBusiness(), '--id-number-file', file]
  const created = await run(...create)
  expect(created).toMatchObject({ code: 0, stderr: '' })
  const number = /^Number +(\d{10})$/m.exec(created.stdout)?.[1]
  expect(await run(...create)).toEqual({ ...created, stderr: 'The account was already open.\n' })
  const shown = await run('account', 'get', 'again', ...ofBusiness())
  expect(shown.stdout).toBe(created.stdout)
  expect(shown.stdout).toMatch(/^Customer +Ada Obi$/m)
  const listed = await run('account', 'list', ...ofBusiness(), '--status', 'ACTIVE')
  expect(listed.stdout).toMatch(
    new RegExp(
      `^R-\\w+ +again +live +PALMPAY +${number} +Acme Stores/Ada Obi +ACTIVE +${TIME}$`,
      'm',
    ),
  )
  expect((await run('account', 'list', ...ofBusiness(), '--status', 'CLOSED')).stdout).toBe('')
})

test('an identity number is not accepted on the command line, and not repeated', async () => {
  for (const verb of [OF_PALMPAY, ['account', 'list']]) {
    const refused = await run(...verb, '--id-number', '12345678901')
    expect(refused.code).toBe(2)
    expect(refused.stderr).toMatch(/^error: an identity number must not be on the command line\n/)
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
  const other = await run(...simulate, '--amount', '1')
  expect(other).toMatchObject({ code: 0, stderr: expect.stringMatching(/another amount/) })
  expect(other.stdout).toMatch(/^Outcome +CONFLICT$/m)
})

test('a pending account is listed with its cause, and resolved with what the bank says', async () => {
  await openPending('opened')
  const pending = await run('account', 'list', ...ofBusiness(), '--status', 'PENDING')
  expect(pending.stdout).toMatch(/OPENING STATE +CAUSE/)
  expect(pending.stdout).toMatch(/ opened .* PENDING .* RETRYABLE +temporary failure$/m)
  const resolve = (reference: string, ...args: string[]) =>
    run('account', 'resolve', reference, '--yes', ...ofBusiness(), ...args)
  const number = ['--account-number', '4123456789']
  const done = await resolve('opened', ...number, '--account-name', 'ADA OBI')
  expect(done.stdout).toMatch(/^Number +4123456789$/m)
  expect(done.stdout).toMatch(/^Name +ADA OBI$/m)
  await openPending('not-opened')
  expect(await resolve('not-opened', '--not-opened')).toEqual({
    code: 0,
    stdout: '',
    stderr: 'Nothing was opened; the reference may be used again.\n',
  })
  for (const wrong of [[], ['--not-opened', ...number]]) {
    const outcome = await resolve('opened', ...wrong)
    expect(outcome).toMatchObject({ code: 2, stderr: expect.stringContaining('either') })
  }
})

/** A business with a settled payment. */
async function funded(naira: string) {
  const { id } = await service.business()
  const own = ['--business', id]
  const create = [...CREATE, ...own, '--bank', '9PSB', '--reference', 'funds', '--json']
  const { account: opened } = JSON.parse((await run(...create)).stdout)
  const transfer = ['transfer', 'simulate', '--account', opened.accountNumber, '--amount', naira]
  const { transaction } = JSON.parse((await run(...transfer, '--json')).stdout)
  await waitFor(async () => {
    const preview = { businessId: id, force: true }
    const { transactionCount } = await service.client(SettlementService).previewSettlement(preview)
    expect(transactionCount).toBe(1n)
  })
  await run('settle', 'run', ...own, '--force', '--yes')
  return { own, transactionId: transaction.id as string }
}

const TO = ['--bank', '058', '--account', '0123456785']

test('a payout is confirmed by the name of the account, approved by another person, and paid', async () => {
  const { own } = await funded('200000')
  const resolved = await run('payout', 'resolve-name', ...own, ...TO, '--json')
  const { beneficiary } = JSON.parse(resolved.stdout)
  const request = ['payout', 'create', ...own, ...TO, '--reference', 'rent', '--amount', '150000']
  const asked = await run(...request)
  expect(asked).toMatchObject({ code: 2, stdout: '' })
  expect(asked.stderr).toContain(
    `Pays 150000.00 NGN to ${beneficiary.accountName}, 0123456785, Guaranty Trust Bank, out of the live balance of ${own[1]}`,
  )
  const wrong = await run(...request, '--name', 'ANOTHER NAME', '--yes')
  expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining('(name_mismatch)') })
  const requested = await run(...request, '--yes')
  expect(requested.stdout).toMatch(/^Status +PENDING_APPROVAL$/m)
  expect(requested.stdout).toMatch(/^Needs approval +more than 100000\.00 naira to a beneficiary /m)
  const id = idOf(requested.stdout)
  expect(requested.stderr).toBe(`Another person has to approve it: inflow payout approve ${id}\n`)
  expect((await run(...request, '--yes')).stderr).toMatch(/^The payout was requested before\.\n/)
  expect((await run('balance', ...own)).stdout).toMatch(/^Reserved +150000\.00$/m)
  const approve = ['payout', 'approve', id, '--note', 'invoice 7']
  const refused = await run(...approve)
  expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('It is sent') })
  expect(refused.stderr).toContain(`${id}: 150000.00 NGN to ${beneficiary.accountName}, `)
  expect((await run(...approve, '--yes')).stderr).toContain('(own_payout)')
  const scopes = ['--scope', 'payouts:approve', 'read', '--json']
  const issued = JSON.parse((await run('token', 'issue', '--name', 'second', ...scopes)).stdout)
  const approved = await runHere([...approve, '--yes'], { ...env(), INFLOW_TOKEN: issued.secret })
  expect(approved.stdout).toMatch(/^Decision note +invoice 7$/m)
  const get = ['payout', 'get', ...own, '--reference', 'rent']
  await waitFor(async () => expect((await run(...get)).stdout).toMatch(/^Status +PAID$/m))
  expect((await run(...get)).stdout).toMatch(
    /\n\nAT +STATUS +ACTOR +WHAT\n.* PENDING_APPROVAL +boot/,
  )
  const { stdout } = await run('payout', 'list', ...own, '--status', 'paid')
  expect(stdout).toMatch(
    new RegExp(` rent +150000\\.00 +PAID +9PSB +live .* Guaranty .* ${id}$`, 'm'),
  )
  expect((await run('payout', 'beneficiaries', ...own)).stdout).toContain(beneficiary.accountName)
  const late = await run('payout', 'cancel', id, '--yes')
  expect(late).toMatchObject({ code: 1, stderr: expect.stringContaining('(payout_not_pending)') })
})

test('a payment is refunded to its payer in part, and to another account once approved', async () => {
  const { own, transactionId } = await funded('1000')
  const create = ['refund', 'create', transactionId]
  const asked = await run(...create, '--amount', '400')
  expect(asked.code).toBe(2)
  expect(asked.stderr).toMatch(/: 1000\.00 NGN from .+, into \d{10}\n +400\.00 NGN is paid to its /)
  const other = [...TO, '--name', 'ANOTHER NAME']
  expect(await run(...create, ...TO)).toMatchObject({ code: 2 })
  const refused = await run(...create, ...other, '--yes')
  expect(refused.stderr).toContain('(name_mismatch)')
  const refunded = await run(...create, '--amount', '400', '--yes')
  expect(refunded.stdout).toMatch(/^Still refundable +600\.00$/m)
  expect(refunded.stdout).toMatch(new RegExp(`^Refunds +${transactionId}$`, 'm'))
  const { stdout } = await run('refund', 'list', ...own)
  expect(stdout).toMatch(new RegExp(` 400\\.00 .* ${transactionId} +-$`, 'm'))
  expect((await run('payout', 'list', ...own, '--purpose', 'payout')).stdout).toBe('')
})

test('an unmatched payment is returned by a payout, once amount and payer are confirmed', async () => {
  await service.client(TransactionService).recordPayment({
    bank: Bank.BANK_9PSB,
    accountNumber: '3999999999',
    amountMinor: 43_210n,
    sessionId: 'typed-wrong',
    payer: payerAt('0123456785'),
  })
  const [id = ''] = /unm_\w+(?=.* typed-wrong )/.exec((await run('unmatched', 'list')).stdout) ?? []
  const asked = await run('refund', 'unmatched', id)
  expect(asked.code).toBe(2)
  expect(asked.stderr).toMatch(
    /: 432\.10 NGN from [A-Z ]+, \d{10}, to 3999999999\n +All of it is paid to its payer\./,
  )
  const { stdout } = await run('refund', 'unmatched', id, '--reason', 'mistyped', '--yes')
  expect(stdout).toMatch(new RegExp(`^Returns +${id}$`, 'm'))
  expect(stdout).not.toMatch(/^Business/m)
  await waitFor(async () =>
    expect((await run('payout', 'get', idOf(stdout))).stdout).toMatch(/^Status +PAID$/m),
  )
  const again = await run('refund', 'unmatched', id, '--yes')
  expect(again.stderr).toContain('The return was requested before.')
  const assign = ['unmatched', 'assign', id, '--business', 'biz_x', '--reference', 'x', '--yes']
  expect((await run(...assign)).code).toBe(1)
})

test('the rules of payouts are changed one by one, or as a whole from a file', async () => {
  const { id } = await service.business()
  const own = ['--business', id]
  const set = (...args: string[]) => run('payout', 'policy', 'set', ...own, ...args)
  await set('--approval-above', '0', '--daily-max', '5000000', '--duty', 'on')
  const changed = await set('--cool-down-hours', '48')
  expect(changed.stdout).toMatch(/^Approval above +0\.00$/m)
  expect(changed.stdout).toMatch(/^Of a day +5000000\.00$/m)
  expect(changed.stdout).toMatch(/^Largest payout +no limit$/m)
  expect(changed.stdout).toMatch(/^Cool down hours +48$/m)
  expect((await set('--approval-above', 'none')).stdout).toMatch(/^Approval above +none$/m)
  const { policy } = JSON.parse((await run('payout', 'policy', 'get', ...own, '--json')).stdout)
  const file = join(temporaryFolder(), 'rules.json')
  const fees = [
    { upToMinor: '500000', flatMinor: '1000' },
    { flatMinor: '2500', basisPoints: 50, capMinor: '20000' },
  ]
  writeFileSync(file, JSON.stringify({ policy: { ...policy, fees } }))
  expect((await set('--file', file)).stdout).toMatch(
    /^Fees +up to 5000\.00: 10\.00; 25\.00 \+ 0\.5 %, at most 200\.00$/m,
  )
  writeFileSync(file, '{"rules":{}}')
  expect(await set('--file', file)).toMatchObject({ code: 2 })
})

test('the payouts of a file are validated as a whole, confirmed by their sum, and decided as a batch', async () => {
  const { own } = await funded('1000')
  await run('payout', 'policy', 'set', ...own, '--approval-above', '50')
  const named = await run('payout', 'resolve-name', ...own, ...TO, '--json')
  const name = JSON.parse(named.stdout).beneficiary.accountName as string
  const file = join(temporaryFolder(), 'salaries.csv')
  const head =
    'reference,amount,beneficiary_bank_code,beneficiary_account_number,beneficiary_account_name\n'
  const row = (reference: string, bank = '058') => `${reference},100,${bank},0123456785,${name}\n`
  const request = ['payout', 'import', file, ...own, '--reference', 'salaries']
  writeFileSync(file, head + row('s-1') + row('s-2', '998'))
  const wrong = await run(...request, '--yes')
  expect(wrong).toMatchObject({ code: 1, stderr: expect.stringMatching(/^ {2}line 3: /m) })
  writeFileSync(file, `${head + row('s-1') + row('s-2')}s-3,10,058,0123456785,ANOTHER NAME\n`)
  const asked = await run(...request)
  expect(asked).toMatchObject({ code: 2, stdout: '' })
  expect(asked.stderr).toMatch(/Pays 3 beneficiary accounts: 210\.00 NGN, two hundred (and )?ten /i)
  const id = idOf((await run(...request, '--yes')).stdout)
  const shown = () => run('payout', 'batch', id, ...own)
  await waitFor(async () => expect((await shown()).stdout).toMatch(/^Await approval +2$/m))
  await waitFor(async () => expect((await shown()).stdout).toMatch(/ s-3 +name_mismatch /))
  const approve = ['payout', 'approve-batch', id, ...own]
  expect((await run(...approve)).stderr).toContain('salaries: 2 payouts of 200.00 NGN in all.')
  expect((await run(...approve, '--yes')).stderr).toContain('(own_payout)')
  const rejected = await run('payout', 'reject-batch', id, ...own, '--yes')
  expect(rejected.stderr).toMatch(/^Rejected 2: two hundred /i)
  expect((await run('payout', 'batches', ...own)).stdout).toMatch(
    new RegExp(` salaries .* ${id}$`, 'm'),
  )
})
