import { createWriteStream, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { finished } from 'node:stream/promises'
import { beforeAll, expect, test } from 'vitest'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { type Payee, payee } from '../notifications/scene.ts'
import { temporaryFolder } from '../support/folder.ts'
import { useService } from '../support/service.ts'
import { callerEnv, inflow, runHere } from './run-inflow.ts'

const service = useService()
let account: Payee

beforeAll(async () => {
  account = await payee(service, Bank.BANK_9PSB)
})

const env = () => callerEnv(service)
const HEADER = 'Session ID,Account Number,Amount,Transaction Date,Status,DR/CR'

const row = (session: string, amount: string, { status = 'SUCCESSFUL', side = 'CR' } = {}) =>
  `${session},${account.accountNumber},${amount},2026-11-20 10:00:00,${status},${side}`

function reconcile(lines: readonly string[], ...args: string[]) {
  // The format of a bank's portal.
  return reconcileText(`\ufeff${[HEADER, ...lines].join('\r\n')}\r\n`, ...args)
}

function reconcileText(text: string, ...args: string[]) {
  const file = join(temporaryFolder(), 'statement.csv')
  writeFileSync(file, text)
  return runHere(['reconcile', '--bank', '9PSB', '--file', file, '--json', ...args], env())
}

const messageOf = ({ stderr }: { readonly stderr: string }): string =>
  JSON.parse(stderr).error.message

/** @param atMs 10:00 in Lagos unless given */
async function record(sessionId: string, amountMinor: bigint, atMs = Date.UTC(2026, 10, 20, 9)) {
  const { accountNumber } = account
  const paidAt = { seconds: BigInt(atMs / 1_000) }
  const payment = { bank: Bank.BANK_9PSB, accountNumber, sessionId, amountMinor, paidAt }
  await service.client(TransactionService).recordPayment(payment)
}

async function counts() {
  const { rows } = await service.database.durablePool.query(
    `select (select count(*) from transaction) as t, (select count(*) from payment_conflict) as c,
      (select count(*) from unmatched_payment) as u, (select count(*) from ledger_posting) as p`,
  )
  return rows[0]
}

test('compares and applies a statement; a repeat changes nothing', async () => {
  for (const [session, minor] of [
    ['same', 30n],
    ['other', 100n],
    ['extra', 500n],
  ] as const) {
    await record(session, minor)
  }
  const lines = [
    row('same', '0.30'),
    row('missing', '"1,500.50"'),
    row('other', '1.01'),
    row('same', '0.3'),
    row('debit', '5', { side: 'DR' }),
    row('pending', '5', { status: 'Pending' }),
    row('failed', '5', { status: 'FAILED' }),
    row('unmatched', '9').replace(account.accountNumber, '0000000000'),
  ]
  const before = await counts()
  const dry = await reconcile(lines)
  expect(await counts()).toEqual(before)
  expect(dry).toMatchObject({ code: 1, stderr: expect.stringContaining('dry run') })
  const report = JSON.parse(dry.stdout)
  expect(report).toMatchObject({
    rows: 6,
    skipped: 2,
    remaining: 5,
    findings: { matched: 2, missing: 2, mismatched: 1, repeated: 1, extra: 1 },
  })
  expect(report.discrepancies).toContainEqual(
    expect.objectContaining({ line: 4, amountMinor: '101', recordedAmountMinor: '100' }),
  )

  const applied = await reconcile(lines, '--apply')
  const done = JSON.parse(applied.stdout)
  expect(done.actions).toMatchObject({ recorded: 1, review: 1, unmatched: 1 })
  expect(done.remaining).toBe(4)
  const after = await counts()
  expect(after).toEqual({ t: '4', c: '1', u: '1', p: '4' })

  const again = JSON.parse((await reconcile(lines, '--apply')).stdout)
  expect(await counts()).toEqual(after)
  expect(again.findings).toMatchObject({ matched: 3, missing: 0, unmatched: 1, extra: 1 })
  const clean = await reconcile(
    [row('same', '0.30'), row('missing', '1500.50')],
    '--to',
    '2026-11-20T00:00:00Z',
  )
  expect(clean).toMatchObject({ code: 0, stderr: '' })
})

test.each([
  ['1.005', 'line 3, column 3 (amount): "1.005"'],
  ['1,500', 'line 3, has 7 columns, but the header has 6'],
  ['5"', 'line 3, column 3: a quote inside an unquoted field'],
])(
  'an invalid amount %s changes nothing, not even for the rows before it',
  async (amount, text) => {
    const before = await counts()
    const outcome = await reconcile(
      [row(`good-${amount.length}`, '5'), row('bad', amount)],
      '--apply',
    )
    expect(outcome).toMatchObject({ code: 2, stdout: '' })
    expect(messageOf(outcome)).toContain(text)
    expect(await counts()).toEqual(before)
  },
)

test('takes names of columns, and requires unambiguous dates', async () => {
  const text = `NIP;Ref,To,Naira,When\nsame,${account.accountNumber},0.30,20/11/2026 10:00:00\n`
  const columns = ['--columns', 'session=NIP;Ref,account=To,amount=Naira,time=When']
  const failure = async (...args: string[]) => {
    const outcome = await reconcileText(text, ...args)
    expect([outcome.code, outcome.stdout]).toEqual([2, ''])
    return messageOf(outcome)
  }
  expect(await failure()).toMatch(
    /no header matches session \(known: sessionid, session, .*bankkey\).*; found: "NIP;Ref", "To", .*--columns session/,
  )
  expect(await failure('--columns', 'session=Reference')).toContain(
    'there is no column "Reference"; found: "NIP;Ref", "To", "Naira", "When"',
  )
  expect(await failure(...columns)).toContain('--dates')
  expect(await failure(...columns, '--dates', 'month-first')).toContain('line 2')
  const { stdout } = await reconcileText(text, ...columns, '--dates', 'day-first')
  expect(JSON.parse(stdout).findings.matched).toBe(1)
})

test('--from and --to are Lagos times like the rows, on a machine in another zone', async () => {
  await record('early', 100n, Date.UTC(2026, 10, 21, 23, 30))
  const period = ['--from', '2026-11-22 00:00:00', '--to', '2026-11-23']
  const report = JSON.parse((await reconcile([row('same', '0.30')], ...period)).stdout)
  expect(report.discrepancies).toMatchObject([{ finding: 'EXTRA', sessionId: 'early' }])
  expect(report).toMatchObject({ from: '2026-11-22 00:00:00', to: '2026-11-23 00:00:00' })
  const refused = await reconcile([row('same', '0.30')], '--from', 'yesterday')
  expect(messageOf(refused)).toContain('in Africa/Lagos')
})

test('compares a file of 100,000 rows in little memory', async () => {
  const file = join(temporaryFolder(), 'large.csv')
  const out = createWriteStream(file)
  out.write(`${HEADER}\n`)
  for (let i = 0; i < 100_000; i++) out.write(`${row(`large-${i}`, '7.01')}\n`)
  out.end()
  await finished(out)
  const args = ['reconcile', '--bank', '9PSB', '--file', file, '--json']
  const outcome = await inflow(args, { env: { ...env(), NODE_OPTIONS: '--max-old-space-size=96' } })
  const report = JSON.parse(outcome.stdout)
  expect(report).toMatchObject({ rows: 100_000, discrepanciesOmitted: expect.any(Number) })
  expect(report.findings.missing).toBe(100_000)
  expect(outcome.code).toBe(1)
})
