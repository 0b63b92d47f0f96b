import { execFile, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Command } from 'commander'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { createProgram } from '../../src/cli/command-line.ts'
import { listOf } from '../../src/cli/complete-ids.ts'
import { type CommandNode, commandTree, flagsOf } from '../../src/cli/completion.ts'
import { grpcTransport } from '../support/grpc-client.ts'
import { listen } from '../support/listen.ts'
import { openAccountOver } from '../support/opened-account.ts'
import { useSharedService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { callerEnv, ENTRY, NOUNS, runHere } from './run-inflow.ts'

/** How a shell is asked: each line of its output is a candidate, and `=` ends a question. */
const SHELLS = {
  bash: {
    args: ['--norc'],
    ask: (words: readonly string[]) =>
      `COMP_WORDS=(${words.map(quote).join(' ')}); COMP_CWORD=${words.length - 1}; COMPREPLY=(); ` +
      `_inflow; printf '%s\\n' "\${COMPREPLY[@]}"; echo =`,
    before: '',
  },
  zsh: {
    args: ['-f'],
    ask: (words: readonly string[]) =>
      `words=(${words.map(quote).join(' ')}); CURRENT=${words.length}; _inflow; echo =`,
    // The line editor, which only a terminal has, shows what the script finds.
    before: `compdef() { : }; _files() { : }; _describe() { print -rl -- "\${(@)\${(@P)2}%%:*}" }`,
  },
  fish: {
    args: ['--no-config'],
    ask: (words: readonly string[]) =>
      `complete -C ${quote(words.join(' '))} | string replace -r '\\t.*' ''; echo =`,
    before: '',
  },
} as const

type Shell = keyof typeof SHELLS

const service = useSharedService()

// Names of files are completed too, so there are none.
const folder = mkdtempSync(join(tmpdir(), 'inflow-completion-'))
const programs = mkdtempSync(join(tmpdir(), 'inflow-completion-programs-'))
afterAll(() => {
  for (const each of [folder, programs]) rmSync(each, { recursive: true, force: true })
})

// The command that the scripts call.
writeFileSync(
  join(programs, 'inflow'),
  `#!/bin/sh\nexec '${process.execPath}' -- '${ENTRY}' "$@"\n`,
  {
    mode: 0o755,
  },
)

/** Asks a shell what completes each command line, of which the last word is incomplete. */
async function ask(
  shell: Shell,
  lines: readonly (readonly string[])[],
  service: Readonly<Record<string, string>> = {},
): Promise<string[][]> {
  const { args, ask: asked, before } = SHELLS[shell]
  const { stdout: script } = await runHere(['completion', shell])
  const questions = lines.map((words) => asked(['inflow', ...words]))
  const program = [before, script, ...questions].join('\n')
  // An argument is too short for it.
  const file = join(programs, `${shell}-${randomUUID()}`)
  await writeFile(file, program)
  const env = { PATH: `${programs}:${process.env['PATH']}`, HOME: folder, ...service }
  const output = await new Promise<string>((resolve, reject) => {
    execFile(shell, [...args, file], { cwd: folder, env }, (error, stdout, stderr) =>
      error || stderr !== '' ? reject(new Error(stderr, { cause: error })) : resolve(stdout),
    )
  })
  const answers = output.split('=\n').slice(0, -1)
  return lines.map((words, index) => {
    const found = (answers[index] ?? '').split('\n').filter((word) => word !== '')
    return found.filter((word) => word.startsWith(words.at(-1) ?? '')).sort()
  })
}

const quote = (text: string) => `'${text}'`

const tree = commandTree(await createProgram(NOUNS, () => true))

/** What may follow a command. */
const wordsAfter = ({ commands, options, operands }: CommandNode): string[] =>
  [...commands.map(({ name }) => name), ...operands, ...options.flatMap(flagsOf)].sort()

describe.for(Object.keys(SHELLS) as Shell[])('%s', (shell) => {
  const installed = spawnSync(shell, ['--version']).error === undefined
  // A skipped test says which shell the machine lacks.
  const here = test.runIf(installed)

  here('completes commands, options and their values', async () => {
    const banks = ['9PSB', 'PALMPAY', 'PROVIDUS', 'SAFEHAVEN']
    const cases: readonly (readonly [words: readonly string[], found: readonly string[]])[] = [
      [['acc'], ['account']],
      [
        ['account', 'c'],
        ['close', 'create'],
      ],
      [['events', 'epoch', 'b'], ['bump']],
      [
        ['account', 'create', '--b'],
        ['--bank', '--business'],
      ],
      [['account', 'create', '--bank', ''], banks],
      [['account', 'create', '--reference', 'order-1', '--bank', 'PA'], ['PALMPAY']],
      [['completion', 'z'], ['zsh']],
      // A value may have the name of a command.
      [['account', 'list', '--business', 'events', '--st'], ['--status']],
      [['account', 'create', '--reference', ''], []],
      [['nothing', '--st'], []],
    ]
    const answers = await ask(
      shell,
      cases.map(([words]) => words),
    )
    expect(answers).toEqual(cases.map(([, found]) => found))
  })

  here('completes ids with the latest of the service, and evaluates none of them', async () => {
    const { id } = await service.business('Acme Stores')
    const transport = grpcTransport(service.grpcUrl)
    const open = async (reference: string) =>
      (await openAccountOver(transport, { businessId: id, reference })).reference
    await open('order-1')
    const assigned = await open('$(touch evaluated)')
    const credentials = callerEnv(service)
    const lines = [
      ['account', 'get', '--business', id, ''],
      ['account', 'get', '--business', id, 'order'],
      ['account', 'close', '--business', id.slice(0, 6)],
      // It has its operand.
      ['account', 'get', '--business', id, 'order-1', ''],
    ]
    const all = [assigned, 'order-1'].sort()
    const expected = [all, ['order-1'], expect.arrayContaining([id]), []]
    for (const [index, line] of lines.entries()) {
      // Without a response in time there are no ids.
      await waitFor(async () => {
        const [words] = await ask(shell, [line], credentials)
        expect(words?.filter((word) => !word.startsWith('-'))).toEqual(expected[index])
      })
    }
    expect(existsSync(join(folder, 'evaluated'))).toBe(false)
  })

  here('knows all that help lists', async () => {
    const lines = tree.map(({ path }) => [...path.split(' ').filter(Boolean), '-'])
    const flags = tree.map((node) => wordsAfter(node).filter((word) => word.startsWith('-')))
    expect(await ask(shell, lines)).toEqual(flags)
    const commands = tree.filter((node) => node.commands.length > 0)
    const after = commands.map(({ path }) => [...path.split(' ').filter(Boolean), ''])
    expect(
      (await ask(shell, after)).map((words) => words.filter((word) => !word.startsWith('-'))),
    ).toEqual(commands.map((node) => wordsAfter(node).filter((word) => !word.startsWith('-'))))
  })
})

test('a word is completed with no ids, and nothing is said, without a service', async () => {
  const lines = [['webhook', 'delivery', 'dlv_']]
  expect(await ask('bash', lines)).toEqual([[]])
  const credentials = callerEnv({ grpcUrl: await silentServer() })
  expect(await ask('bash', lines, credentials)).toEqual([[]])
})

/** Accepts connections, and never responds. @returns its URL */
async function silentServer(): Promise<string> {
  const server = createServer()
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${await listen(server)}`
}

/** Ids that the service cannot list: of other services, of several kinds, and new ones. */
const UNLISTED = [
  '--bank-account-id <id>',
  '--oauth2-client <id>',
  '--request <id>',
  '--request-id <id>',
  '--target <id>',
]

test('every id that a command takes is completed', async () => {
  const withBelow = (command: Command): Command[] => [
    command,
    ...command.commands.flatMap(withBelow),
  ]
  const commands = withBelow(await createProgram(NOUNS, () => true))
  const options = commands.flatMap((command) => command.options)
  const operands = commands.flatMap((command) => command.registeredArguments)
  const takeIds = options.filter(({ flags }) => /<ids?(\.\.\.)?>/.test(flags))
  const unlisted = takeIds.filter((option) => !listOf(option)).map(({ flags }) => flags)
  expect([...new Set(unlisted)].sort()).toEqual(UNLISTED)
  const named = operands.filter((operand) => /(^|-)id$/.test(operand.name()))
  expect(named.length).toBeGreaterThan(10)
  expect(named.filter((operand) => !listOf(operand)).map((operand) => operand.name())).toEqual([])
})

test('each id is described', async () => {
  const { id } = await service.business('Acme Stores')
  const env = callerEnv(service)
  await waitFor(async () => {
    const { stdout } = await runHere(['completion', 'fish', '--', 'business', 'update'], env)
    expect(stdout.split('\n')).toContain(`${id}\tAcme Stores`)
  })
})

test('bash takes --bank=9PSB for three words', async () => {
  const [found] = await ask('bash', [['account', 'create', '--bank', '=', 'SA']])
  expect(found).toEqual(['SAFEHAVEN'])
})
