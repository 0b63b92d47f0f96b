import type { Command } from 'commander'
import { expect, test, vi } from 'vitest'
import { createProgram } from '../../src/cli/command-line.ts'
import { inflow } from './run-inflow.ts'

vi.setConfig({ testTimeout: 30_000 })

const program = await createProgram(() => true)
const nouns = program.commands
const verbs = nouns.flatMap((noun) => (noun.commands.length > 0 ? noun.commands : [noun]))
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
      ...['serve', 'migrate up', 'migrate status', 'business create', 'business list'],
      ...['key issue', 'key revoke', 'key list', 'account create', 'account get', 'account list'],
      ...['transfer simulate', 'transaction get', 'transaction list'],
      ...['webhook add', 'webhook list', 'webhook remove', 'events tail'],
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

test('help and version go to standard output, and are a success', async () => {
  const help = await inflow(['--help'])
  expect(help).toMatchObject({ code: 0, stderr: '' })
  for (const noun of nouns) expect(help.stdout).toContain(`  ${noun.name()} `)
  expect(await inflow(['help'])).toEqual(help)
  const verb = await inflow(['transfer', 'simulate', '--help'])
  expect(verb).toMatchObject({ code: 0, stderr: '' })
  expect(verb.stdout).toContain('--amount <naira>')
  const noun = await inflow(['help', 'webhook'])
  expect(noun).toMatchObject({ code: 0, stderr: '' })
  expect(noun.stdout).toContain('remove')
  expect((await inflow(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
})
