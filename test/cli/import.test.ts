import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../support/folder.ts'
import { useSharedService } from '../support/service.ts'
import { callerEnv, inflow, runHere, startInflow } from './run-inflow.ts'

const service = useSharedService()
const env = () => callerEnv(service)

const ACCOUNTS =
  'reference,provider_reference,bank,accountNumber,account_name,first_name,lastName,email,phone,opened_at'
const TRANSACTIONS = 'session_id,bank,account_number,amount,status,settled,paid_at,payer_name'

let numbers = 5_000_000_000

/** Lines of accounts, with references and numbers of their own. */
function accountLines(count: number, phone = '08012345678'): string[] {
  return Array.from({ length: count }, () => {
    numbers += 1
    return `own-${numbers},R-OLD-${numbers},9psb,${numbers},"ACME/Ada, Obi",Ada,Obi,ada@example.com,${phone},2025-03-01 10:00:00`
  })
}

function fileOf(name: string, lines: readonly string[]): string {
  const file = join(temporaryFolder(), name)
  writeFileSync(file, `${lines.join('\n')}\n`)
  return file
}

function run(
  verb: 'accounts' | 'transactions',
  file: string,
  businessId: string,
  ...args: string[]
) {
  return runHere(['import', verb, file, '--business', businessId, ...args], env())
}

async function count(table: 'account' | 'transaction', businessId: string): Promise<number> {
  const { rows } = await service.database.durablePool.query(
    `select count(*)::int as count from ${table} where business_id = $1`,
    [businessId],
  )
  return rows[0].count
}

test('imports accounts and then their payments, and a repeat finds them there', async () => {
  const { id } = await service.business()
  const lines = accountLines(3)
  const accounts = fileOf('accounts.csv', [ACCOUNTS, ...lines])
  expect(await run('accounts', accounts, id, '--dry-run')).toMatchObject({
    code: 0,
    stdout: '3 would be imported, 0 already there\n',
  })
  expect(await count('account', id)).toBe(0)
  const done = await run('accounts', accounts, id)
  expect(done).toMatchObject({ code: 0, stdout: '3 imported, 0 already there\n' })
  const again = await run('accounts', accounts, id)
  expect(again).toMatchObject({ code: 0, stdout: '0 imported, 3 already there\n' })
  const payments = fileOf('payments.csv', [
    TRANSACTIONS,
    `cli-1,9PSB,${numbers},1500.50,SUCCESS,,2025-04-01T09:00:00Z,BOLA ADE`,
    `cli-2,9PSB,${numbers},20,REVERSED,no,2025-04-02 09:00:00,`,
  ])
  expect(await run('transactions', payments, id)).toMatchObject({
    code: 0,
    stdout: '2 imported, 0 already there\n',
  })
  const list = ['transaction', 'list', '--business', id]
  const { stdout } = await runHere(list, env())
  expect(stdout).toMatch(/cli-1 +1500\.50 +SUCCESS +yes .* yes$/m)
  const shown = await runHere(['account', 'get', `own-${numbers}`, '--business', id], env())
  expect(shown.stdout).toMatch(/^Imported .*, not yet confirmed by the bank$/m)
  expect((await runHere(['account', 'list', '--business', id], env())).stdout).toContain(
    'not yet confirmed by the bank',
  )
})

test('prints what is wrong by line, and imports nothing', async () => {
  const { id } = await service.business()
  const [good, repeated] = accountLines(2)
  const [badPhone] = accountLines(1, '12')
  const file = fileOf('accounts.csv', [
    ACCOUNTS,
    good!,
    badPhone!,
    repeated!,
    repeated!.replace('R-OLD', 'R-NEW'),
    good!.replace('9psb', 'GTB'),
    'short,R-1',
  ])
  const outcome = await run('accounts', file, id)
  expect(outcome.code).toBe(1)
  expect(outcome.stdout.split('\n')).toEqual([
    expect.stringMatching(/^line 3: phone: must be a Nigerian number/),
    'line 5: reference: is that of line 4',
    'line 5: accountNumber: is that of line 4',
    'line 6: bank: must be one of 9PSB, SAFEHAVEN, PROVIDUS, PALMPAY',
    'line 7: has 2 columns, but the header has 10',
    '',
  ])
  expect(outcome.stderr).toContain('5 faults in the file: nothing was imported')
  expect(await count('account', id)).toBe(0)
  const json = await run('accounts', file, id, '--json')
  expect(JSON.parse(json.stdout)).toMatchObject({ rows: 6, imported: 0, faultCount: 5 })
})

test('an unknown column, a missing file and an empty one are refused', async () => {
  const { id } = await service.business()
  const unknown = await run('accounts', fileOf('a.csv', ['reference,colour', 'a,b']), id)
  expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining('columns: colour') })
  expect((await run('accounts', '/nowhere.csv', id)).code).toBe(2)
  expect((await run('accounts', fileOf('b.csv', []), id)).code).toBe(2)
  const unknownBusiness = await run(
    'accounts',
    fileOf('c.csv', [ACCOUNTS, ...accountLines(1)]),
    'biz_no',
  )
  expect(unknownBusiness).toMatchObject({ code: 1, stderr: expect.stringContaining('not_found') })
})

test('a run that was killed is repeated, in little memory', async () => {
  const { id } = await service.business()
  const lines = accountLines(6_000)
  const file = fileOf('accounts.csv', [ACCOUNTS, ...lines])
  const args = ['import', 'accounts', file, '--business', id]
  const options = { env: { ...env(), NODE_OPTIONS: '--max-old-space-size=96' } }
  const killed = startInflow(args, options)
  const exited = killed.exit()
  let isRunning = true
  exited.then(() => {
    isRunning = false
  })
  while (isRunning && (await count('account', id)) === 0) await new Promise(setImmediate)
  killed.child.kill('SIGKILL')
  await exited
  const before = await count('account', id)
  expect(before).toBeGreaterThan(0)
  const { code, stdout } = await inflow(args, options)
  expect(code).toBe(0)
  const [, imported = '', there = ''] =
    /^([\d,]+) imported, ([\d,]+) already there\n$/.exec(stdout) ?? []
  const number = (text: string) => Number(text.replaceAll(',', ''))
  expect(number(imported) + number(there)).toBe(6_000)
  expect(number(there)).toBeGreaterThanOrEqual(before)
  expect(await count('account', id)).toBe(6_000)
})
