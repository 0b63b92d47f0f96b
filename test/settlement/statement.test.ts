import { beforeAll, describe, expect, test } from 'vitest'
import { Schedule } from '../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { callerEnv, runHere } from '../cli/run-inflow.ts'
import { useService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'
import { openAccount, paymentInto } from '../transactions/fixture.ts'

const service = useService()
let businessId: string
/** A time right after each round of payments was booked. */
const times: string[] = []

const run = (...args: string[]) => runHere(args, callerEnv(service))

async function untilBooked(count: number): Promise<void> {
  await waitUntil(async () => {
    const request = { businessId, pageSize: 1_000 }
    return (await service.client(SettlementService).listEntries(request)).entries.length === count
  })
  const { rows } = await service.database.durablePool.query<{ at: string }>(
    `select to_char((max(logged_at) + interval '1 ms') at time zone 'UTC',
      'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as at from money_event where business_id = $1`,
    [businessId],
  )
  times.push(rows[0]!.at)
  // Later entries are booked after this time.
  await waitUntil(() => Date.now() > Date.parse(rows[0]!.at))
}

beforeAll(async () => {
  const account = await openAccount(service)
  businessId = account.businessId
  const settlements = service.client(SettlementService)
  const transactions = service.client(TransactionService)
  await settlements.updateSettlementTerms({
    businessId,
    terms: { schedule: Schedule.WORKING_DAYS, workingDays: 30, feeFlatMinor: 50n },
  })
  const pay = async (name: string) => {
    const payment = paymentInto(account.number, { sessionId: name, amountMinor: 150_050n })
    return (await transactions.recordPayment(payment)).transaction!.id
  }
  const first = await pay('first')
  await pay('second')
  await untilBooked(2)
  await settlements.settle({ businessId, force: true })
  await untilBooked(3)
  await transactions.reverseTransaction({ transactionId: first, reason: 'recalled' })
  await pay('third')
  await untilBooked(5)
})

interface Line {
  readonly line: string
  readonly amounts: readonly number[]
}

function readCsv(text: string): Line[] {
  const [header = '', ...rows] = text.trimEnd().split('\n')
  expect(header).toBe(
    'booked_at,line,sequence,transaction_id,session_id,settlement_id,pending,available,fees,payout_id',
  )
  return rows.map((row) => {
    const cells = row.split(',')
    // Whole kobo, so that sums are exact.
    return {
      line: cells[1] ?? '',
      amounts: cells.slice(6, 9).map((cell) => Math.round(Number(cell) * 100)),
    }
  })
}

function expectSums(lines: readonly Line[]): void {
  expect(lines[0]?.line).toBe('OPENING_BALANCE')
  expect(lines.at(-1)?.line).toBe('CLOSING_BALANCE')
  for (const at of [0, 1, 2]) {
    const sum = lines.slice(0, -1).reduce((total, { amounts }) => total + amounts[at]!, 0)
    expect(sum).toBe(lines.at(-1)?.amounts[at])
  }
}

describe('a statement', () => {
  test('adds up to the current balance', async () => {
    const { stdout, code } = await run('statement', '--business', businessId)
    expect(code).toBe(0)
    const lines = readCsv(stdout)
    expectSums(lines)
    expect(lines.map(({ line, amounts }) => [line, ...amounts])).toEqual([
      ['OPENING_BALANCE', 0, 0, 0],
      ['PAYMENT_NOTIFICATION', 150_050, 0, 0],
      ['PAYMENT_NOTIFICATION', 150_050, 0, 0],
      ['SETTLEMENT_COMPLETED', -300_100, 300_000, 100],
      ['PAYMENT_REVERSED', 0, -150_000, -50],
      ['PAYMENT_NOTIFICATION', 150_050, 0, 0],
      ['CLOSING_BALANCE', 150_050, 150_000, 50],
    ])
    const { balance } = await service.client(SettlementService).getBalance({ businessId })
    expect(balance).toMatchObject({
      pendingMinor: 150_050n,
      availableMinor: 150_000n,
      feesMinor: 50n,
    })
  })

  test('is one JSON document with --format json', async () => {
    const { stdout } = await run('statement', '--business', businessId, '--format', 'json')
    const document = JSON.parse(stdout)
    expect(document.entries).toHaveLength(5)
    expect(document.entries[2]).toMatchObject({
      kind: 'SETTLEMENT_COMPLETED',
      settlementId: expect.stringMatching(/^stl_/),
      pendingMinor: '-300100',
    })
    expect(document.openingBalance.pendingMinor).toBe('0')
    expect(document.closingBalance.availableMinor).toBe('150000')
    expect(JSON.parse((await run('statement', '--business', businessId, '--json')).stdout)).toEqual(
      document,
    )
  })
})

describe('the command line', () => {
  test('shows a balance', async () => {
    const { stdout } = await run('balance', '--business', businessId)
    expect(stdout).toBe(
      'Pending    1500.50\nAvailable  1500.00\nReserved   0.00\nFees       0.50\nCurrency   NGN\n',
    )
  })

  test('sets terms, previews a settlement, settles and lists settlements', async () => {
    const at = ['--business', businessId]
    const set = await run(
      'settle',
      'terms',
      ...at,
      '--schedule',
      'working-days',
      '--days',
      '2',
      '--cut-off',
      '09:30',
      '--fee-percent',
      '1.5',
      '--fee-cap',
      '10',
    )
    expect(set.stdout).toMatch(/^Working days +2$/m)
    expect((await run('settle', 'terms', ...at)).stdout).toBe(set.stdout)
    expect(await run('settle', 'terms', ...at, '--days', '2')).toMatchObject({ code: 2 })
    const preview = await run('settle', 'preview', ...at, '--force')
    expect(preview.stdout).toMatch(/^Gross +1500\.50\nFees +10\.00\nNet +1490\.50$/m)
    const ran = await run('settle', 'run', ...at, '--force', '--request-id', 'by-hand', '--yes')
    expect(ran.stdout).toMatch(/COMPLETED +1 +1500\.50 +10\.00 +1490\.50/)
    const listed = await run('settle', 'list', ...at)
    expect(listed.stdout.trimEnd().split('\n')).toHaveLength(3)
    expect(
      await run('settle', 'run', ...at, '--force', '--request-id', 'by-hand', '--yes'),
    ).toEqual(ran)
  })

  test('adds, lists and removes holidays', async () => {
    await run('holiday', 'add', '2026-12-25', '--name', 'Christmas Day')
    const listed = await run('holiday', 'list')
    expect(listed.stdout).toBe('DAY         NAME\n2026-12-25  Christmas Day\n')
    expect(await run('holiday', 'add', '2026-02-30', '--name', 'x')).toMatchObject({ code: 1 })
    expect(await run('holiday', 'remove', '2026-12-25')).toMatchObject({ code: 0 })
    expect(await run('holiday', 'remove', '2026-12-25')).toMatchObject({ code: 1 })
  })

  test('verifies the ledger', async () => {
    const { stdout, stderr, code } = await run('ledger', 'verify')
    expect({ stdout, code }).toEqual({
      code: 0,
      stdout: expect.stringMatching(
        /^The ledger is consistent: 3 transactions with 12 postings\n$/,
      ),
    })
    const [, cursor = ''] = /--from (\S+)/.exec(stderr) ?? []
    const again = await run('ledger', 'verify', '--from', cursor, '--json')
    expect(JSON.parse(again.stdout)).toEqual({
      transactions: '3',
      postings: '12',
      cursor: expect.stringMatching(/./),
    })
    expect((await run('ledger', 'verify', '--from', 'x')).stderr).toContain('from')
  })
})
