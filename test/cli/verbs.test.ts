import { create } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { Command } from 'commander'
import { expect, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import {
  HoldState,
  TransactionSchema,
  TransactionStatus,
} from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { columnsOf } from '../../src/cli/columns.ts'
import { fields } from '../../src/cli/output.ts'
import { rpc } from '../../src/cli/rpc-verb.ts'
import { addVerbs, local } from '../../src/cli/verb.ts'

/** Adds one verb, and returns it. */
function added(help: string, verb: Parameters<typeof addVerbs>[2][string]): Command {
  const noun = new Command('noun')
  addVerbs(noun, help, { try: verb })
  return noun.commands[0]!
}

const LIST = TransactionService.method.listTransactions

test('a help text describes the operands, the options and which of them are mandatory', () => {
  const verb = added(
    'try: summary\n<a>  an operand\n--b <text>!  b\n--c  c',
    local(() => undefined),
  )
  expect(verb.description()).toBe('summary')
  expect(verb.registeredArguments.map((each) => each.name())).toEqual(['a'])
  expect(verb.options.map(({ flags, mandatory }) => [flags, mandatory])).toEqual([
    ['--b <text>', true],
    ['--c', false],
  ])
})

test('a flag has the values of the enum that its field has, and parses the times and amounts of others', () => {
  const verb = added(
    `try: s
    --status <status...>  a
    --bank <code>  b
    --from <time>  c
    --least <naira>  d
    --limit <count>  e`,
    rpc(LIST, { flags: { status: 'statuses', least: 'amountFromMinor' } }),
  )
  const [status, bank, from, least, limit] = verb.options
  expect(status!.argChoices).toEqual(['PENDING', 'SUCCESS', 'FAILED', 'REVERSED'])
  expect(status!.parseArg!('failed', [TransactionStatus.SUCCESS])).toEqual([
    TransactionStatus.SUCCESS,
    TransactionStatus.FAILED,
  ])
  expect(bank!.argChoices).toContain('9PSB')
  expect(from!.parseArg!('2026-11-20T10:00:00Z', undefined)).toMatchObject({
    seconds: 1_795_168_800n,
  })
  expect(least!.parseArg!('1500.50', undefined)).toBe(150_050n)
  expect(() => limit!.parseArg!('201', undefined)).toThrow('from 1 to 200')
})

test('a flag without a field, an exception without a flag and a verb without a text are defects', () => {
  const create = BusinessService.method.createBusiness
  const help = 'try: s\n--name <text>  a'
  expect(() => added('try: s\n--nickname <text>  a', rpc(create))).toThrow(
    /no field for --nickname/,
  )
  expect(() => added(help, rpc(create, { flags: { alias: 'name' } }))).toThrow(/no flag: alias/)
  expect(() => added('other: s\n--name <text>  a', rpc(create))).toThrow(/no verb/)
  const both = { try: rpc(create), other: rpc(create) }
  expect(() => addVerbs(new Command('noun'), help, both)).toThrow(/too few verbs/)
})

test('columns take their titles and texts from the fields', () => {
  const row = create(TransactionSchema, {
    businessId: 'biz_1',
    amountMinor: 150_050n,
    paidAt: timestampFromMs(Date.UTC(2026, 10, 20)),
    status: TransactionStatus.SUCCESS,
    holdState: HoldState.RETURN_REQUESTED,
    live: true,
    payer: { name: 'Chidi' },
    metadata: { order: '1042', branch: 'Ikeja' },
  })
  const columns = columnsOf(
    TransactionSchema,
    `businessId, amountMinor, status, holdState=Hold, live, payer.name=Payer, settled, imported?,
    expectedAmountMinor?, reversal.reason, metadata, Own`,
    { Own: ({ id }) => `own ${id}`.trim() },
  )
  expect(fields(row, columns.list)).toBe(
    [
      'Business         biz_1',
      'Amount           1500.50',
      'Status           SUCCESS',
      'Hold             RETURN_REQUESTED',
      'Mode             live',
      'Payer            Chidi',
      'Settled          no',
      'Metadata         order=1042, branch=Ikeja',
      'Own              own',
    ].join('\n'),
  )
  expect(columns.list.filter(({ right }) => right).map(({ title }) => title)).toEqual([
    'Amount',
    'Expected amount',
  ])
  expect(() => columnsOf(TransactionSchema, 'nothing')).toThrow(/has no field nothing/)
})
