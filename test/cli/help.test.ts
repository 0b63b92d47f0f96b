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

/** The verbs of each noun: scripts rely on them. */
const COMMANDS = `
  serve
  init
  config: check
  migrate: up, status
  master-key: rotate, status
  doctor
  health
  fake-banks
  overview
  search
  review: update, list
  business: create, update, list
  key: issue, import, update, rotate, revoke, list, requests
  token: issue, revoke, list
  console: link
  portal: link, list, revoke
  session: list, revoke
  audit: list, verify
  account: create, get, list, split, close, resolve
  recipient: approve, revoke, list
  import: accounts, transactions
  transfer: simulate
  transaction: get, list, summary, reverse, timeline, held, accept, return, complete-return
  settle: run, preview, list, calendar, terms
  payout: create, get, list, approve, reject, cancel, resolve, resolve-name, banks, beneficiaries, pause, resume, pauses, float, reconcile, discrepancies, resolve-discrepancy, import, batches, batch, approve-batch, reject-batch, policy get, policy set
  refund: create, unmatched, list
  balance
  statement
  ledger: verify
  holiday: add, remove, list
  unmatched: list, assign, return
  notification: list, find, show, retry, resolve
  conflict: list, resolve
  reconcile
  webhook: add, list, statistics, remove, update, rotate, switch, test, rehearse, deliveries, delivery, redeliver, skip, recover, listen
  events: tail, kinds, epoch bump
  login
  logout
  profile: list, use
  api
  proto: export
  completion`

test('the commands are those that scripts rely on', () => {
  const named = COMMANDS.trim()
    .split(/\n\s*/)
    .flatMap((line) => {
      const [noun = '', found] = line.split(': ')
      return found?.split(', ').map((verb) => `inflow ${noun} ${verb}`) ?? [`inflow ${noun}`]
    })
  expect(verbs.map(nameOf)).toEqual(named)
})

test('every verb describes itself, its operands and options, and shows an example', () => {
  for (const verb of verbs) {
    const name = nameOf(verb)
    expect(verb.description(), name).not.toBe('')
    for (const argument of verb.registeredArguments) expect(argument.description).not.toBe('')
    for (const option of verb.options) expect(option.description, option.flags).not.toBe('')
    const example = helpOf(verb).split('\nExample:\n')[1] ?? ''
    expect(example).toContain(name)
    const known = verb.options.map((option) => option.long)
    for (const [flag] of example.matchAll(/--[a-z-]+/g)) expect(known).toContain(flag)
    for (const option of verb.options) {
      if (option.mandatory) expect(example).toContain(option.long)
    }
  }
})

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
