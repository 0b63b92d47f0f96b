import { PassThrough } from 'node:stream'
import type { Command } from 'commander'
import { beforeAll, describe, expect, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { createProgram } from '../../src/cli/command-line.ts'
import { confirm } from '../../src/cli/confirm.ts'
import { grpcTransport } from '../support/grpc-client.ts'
import { openAccountOver } from '../support/opened-account.ts'
import { useSharedService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { callerEnv, inflow, NOUNS, runHere } from './run-inflow.ts'

const service = useSharedService()

/**
 * The verbs that cannot be undone, or move money out. Not among them: what a repeat with other values restores
 * (`update`, `split`, `terms`, `policy set`, `holiday`), what only adds (`account create`, `issue`, `link`,
 * `webhook add`), what another verb undoes (`webhook skip` by `redeliver`, `payout pause` by `resume`), signing in
 * again (`session revoke`), and what states its wish by a flag of its own and shows the amounts without it
 * (`reconcile --apply`). `key rotate` and `webhook rotate` ask if there is no overlap.
 */
const IRREVERSIBLE = [
  'account close',
  'account resolve',
  'conflict resolve',
  'events epoch bump',
  'key revoke',
  'key rotate',
  'master-key rotate',
  'notification resolve',
  'payout approve',
  'payout approve-batch',
  'payout cancel',
  'payout create',
  'payout import',
  'payout reject',
  'payout reject-batch',
  'payout resolve',
  'payout resolve-discrepancy',
  'portal revoke',
  'refund create',
  'refund unmatched',
  'settle run',
  'token revoke',
  'transaction accept',
  'transaction complete-return',
  'transaction return',
  'transaction reverse',
  'unmatched assign',
  'unmatched return',
  'webhook remove',
  'webhook rotate',
  'webhook switch',
]

test('the verbs that cannot be undone have --yes, and no others', async () => {
  const found: string[] = []
  const visit = (command: Command, path: readonly string[]) => {
    if (command.options.some(({ long }) => long === '--yes')) found.push(path.join(' '))
    for (const each of command.commands) visit(each, [...path, each.name()])
  }
  visit(await createProgram(NOUNS, () => true), [])
  expect(found.sort()).toEqual(IRREVERSIBLE)
})

describe('without a terminal and without --yes', () => {
  let businessId: string
  let keyId: string

  beforeAll(async () => {
    const { client } = service
    const created = await client(BusinessService).createBusiness({ name: 'Asked' })
    businessId = created.business!.id
    const { keys } = await client(BusinessService).listKeys({ businessId })
    keyId = keys[0]!.id
    const given = { businessId, reference: 'asked-1', bank: Bank.BANK_9PSB }
    const { accountNumber } = await openAccountOver(grpcTransport(service.grpcUrl), given)
    for (const [sessionId, amountMinor] of [
      ['ASKED-1', 150_050n],
      ['ASKED-2', 25_000n],
    ] as const) {
      await client(TransactionService).recordPayment({
        bank: Bank.BANK_9PSB,
        accountNumber,
        sessionId,
        amountMinor,
      })
    }
    // A preview has the payments whose events are numbered.
    await waitFor(async () => {
      const preview = await client(SettlementService).previewSettlement({ businessId, force: true })
      expect(preview.transactionCount).toBe(2n)
    })
  })

  const env = () => callerEnv(service)
  /** What is refused says what would have happened. */
  const refused = async (args: readonly string[]) => {
    const { code, stdout, stderr } = await runHere(args, env())
    const [first, ...lines] = stderr.trimEnd().split('\n')
    expect([code, stdout, first]).toEqual([
      2,
      '',
      'error: this cannot be undone, so it needs a confirmation: add --yes',
    ])
    return lines.join('\n')
  }
  const ofBusiness = () => ['--business', businessId]

  test('closing an account is refused, and states its number and customer', async () => {
    const said = await refused(['account', 'close', 'asked-1', ...ofBusiness()])
    expect(said).toMatch(/^ {2}account acc_\w+: Ada Obi, \d{10}, 9 Payment Service Bank, asked-1, /)
    expect(said).toMatch(/\n {2}It cannot be opened again\. Later payments [^\n]+\.$/)
    const { stdout } = await runHere(['account', 'get', 'asked-1', ...ofBusiness()], env())
    expect(stdout).toMatch(/^Status +ACTIVE$/m)
  })

  test('settling is refused, and states how many payments and how much', async () => {
    const said = await refused(['settle', 'run', '--force', ...ofBusiness()])
    expect(said).toBe(
      '  Settles all received payments, including those that are not due, in live mode: 2 payments of 1 businesses.\n' +
        '  Gross 1750.50, fees 0.00, splits 0.00, net 1750.50 NGN.',
    )
    expect(await refused(['settle', 'run', '--test'])).toContain('in test mode: ')
    const { stdout } = await runHere(['settle', 'list', ...ofBusiness()], env())
    expect(stdout).toBe('')
  })

  test('a process whose input is empty changes nothing', async () => {
    expect(await inflow(['key', 'revoke', keyId], { env: env() })).toMatchObject({ code: 2 })
    const { keys } = await service.client(BusinessService).listKeys({ businessId })
    expect(keys[0]!.revokedAt).toBeUndefined()
  })
})

function terminal(isTTY: boolean) {
  const input = Object.assign(new PassThrough(), { isTTY })
  const output = new PassThrough()
  let written = ''
  output.on('data', (text) => {
    written += text
  })
  return { input, output, written: () => written }
}

const ASKED = { question: 'This is for good.', word: 'bump' }

test('on a terminal, the operator has to type the word', async () => {
  for (const text of ['bump\n', ' bump \n']) {
    const { written, ...streams } = terminal(true)
    streams.input.write(text)
    await confirm({}, ASKED, streams)
    expect(written()).toBe('This is for good.\nType "bump" to continue: ')
  }
  for (const text of ['yes\n', 'bumped\n', '']) {
    const { input, output } = terminal(true)
    // An empty text stands for the end of the input: Ctrl-D.
    if (text === '') input.end()
    else input.write(text)
    await expect(confirm({}, ASKED, { input, output })).rejects.toMatchObject({
      exitCode: 1,
      message: 'not confirmed: nothing was changed',
    })
  }
  const { written, ...streams } = terminal(false)
  await expect(confirm({}, ASKED, streams)).rejects.toMatchObject({ exitCode: 2 })
  await confirm({ yes: true }, ASKED, streams)
  expect(written()).toBe('')
})
