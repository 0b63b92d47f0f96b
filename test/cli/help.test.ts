import type { Command } from 'commander'
import { expect, test } from 'vitest'
import { createProgram } from '../../src/cli/command-line.ts'
import { inflow, NOUNS, runHere } from './run-inflow.ts'

const program = await createProgram(NOUNS, () => true)
const nouns = program.commands
const verbsOf = (command: Command): readonly Command[] =>
  command.commands.length > 0 ? command.commands.flatMap(verbsOf) : [command]
const verbs = nouns.flatMap(verbsOf)
const nameOf = (verb: Command) =>
  verb
    .createHelp()
    .commandUsage(verb)
    .replace(/ \[options].*/, '')

function helpOf(command: Command): string {
  let text = ''
  command
    .configureOutput({
      writeOut: (part) => {
        text += part
      },
    })
    .outputHelp()
  return text
}

test('the commands are those of the contract', () => {
  expect(verbs.map(nameOf)).toEqual(
    [
      ...[
        ...['serve', 'init', 'config check'],
        'migrate up',
        'migrate status',
        'master-key rotate',
        'master-key status',
        ...['doctor', 'health'],
        'fake-banks',
        'overview',
        'search',
        'review list',
        'business create',
        'business update',
      ],
      ...[
        'business list',
        'key issue',
        'key import',
        'key update',
        'key rotate',
        'key revoke',
        'key list',
        'key requests',
      ],
      ...['token issue', 'token revoke', 'token list'],
      ...['console link', 'portal link', 'portal list', 'portal revoke'],
      ...['session list', 'session revoke', 'audit list', 'audit verify'],
      ...['account create', 'account get', 'account list', 'account split', 'account close'],
      ...['account resolve', 'recipient approve', 'recipient revoke', 'recipient list'],
      ...['import accounts', 'import transactions'],
      ...['transfer simulate', 'transaction get', 'transaction list', 'transaction reverse'],
      'transaction timeline',
      ...['transaction held', 'transaction accept', 'transaction return'],
      'transaction complete-return',
      ...[
        'settle run',
        'settle preview',
        'settle list',
        'settle calendar',
        'settle terms',
        'balance',
        'statement',
      ],
      ...['ledger verify', 'holiday add', 'holiday remove', 'holiday list'],
      ...['unmatched list', 'unmatched assign', 'unmatched return', 'notification list'],
      'notification find',
      ...['notification show', 'notification retry', 'notification resolve'],
      ...['conflict list', 'conflict resolve', 'reconcile'],
      ...[
        'webhook add',
        'webhook list',
        'webhook statistics',
        'webhook remove',
        'webhook update',
        'webhook rotate',
        'webhook switch',
      ],
      ...[
        'webhook test',
        'webhook rehearse',
        'webhook deliveries',
        'webhook delivery',
        'webhook redeliver',
      ],
      'webhook skip',
      ...['webhook recover', 'webhook listen', 'events tail', 'events kinds', 'events epoch bump'],
      ...['login', 'logout', 'profile list', 'profile use'],
      'api',
      'proto export',
      'completion',
    ].map((name) => `inflow ${name}`),
  )
})

test.each(verbs.map((verb) => [nameOf(verb), verb] as const))(
  '%s describes itself, its operands and options, and shows an example',
  (name, verb) => {
    expect(verb.description()).not.toBe('')
    for (const argument of verb.registeredArguments) expect(argument.description).not.toBe('')
    for (const option of verb.options) expect(option.description, option.flags).not.toBe('')
    const example = helpOf(verb).split('\nExample:\n')[1] ?? ''
    expect(example).toContain(name)
    const known = verb.options.map((option) => option.long)
    for (const [flag] of example.matchAll(/--[a-z-]+/g)) expect(known).toContain(flag)
    for (const option of verb.options) {
      if (option.mandatory) expect(example).toContain(option.long)
    }
  },
)

test('a noun names its verbs in the list of commands', () => {
  for (const noun of nouns) {
    for (const verb of noun.commands) expect(noun.description()).toContain(verb.name())
  }
})

test('help and version go to standard output with exit code 0', async () => {
  const help = await inflow(['--help'])
  expect(help).toMatchObject({ code: 0, stderr: '' })
  for (const noun of nouns) expect(help.stdout).toContain(`  ${noun.name()} `)
  expect(await runHere(['help'])).toEqual(help)
  const verb = await runHere(['transfer', 'simulate', '--help'])
  expect(verb).toMatchObject({ code: 0, stderr: '' })
  expect(verb.stdout).toContain('--amount <naira>')
  const noun = await runHere(['help', 'webhook'])
  expect(noun).toMatchObject({ code: 0, stderr: '' })
  expect(noun.stdout).toContain('remove')
  const nested = await runHere(['events', 'epoch', 'bump', '--help'])
  expect(nested).toMatchObject({ code: 0, stderr: '' })
  expect(nested.stdout).toContain('after a restore of the database')
  expect((await runHere(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
})
