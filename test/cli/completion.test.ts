import { execFile, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { createProgram } from '../../src/cli/command-line.ts'
import { type CommandNode, commandTree } from '../../src/cli/completion.ts'
import { NOUNS, runHere } from './run-inflow.ts'

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

// Names of files are completed too, so there are none.
const folder = mkdtempSync(join(tmpdir(), 'inflow-completion-'))
const programs = mkdtempSync(join(tmpdir(), 'inflow-completion-programs-'))
afterAll(() => {
  for (const each of [folder, programs]) rmSync(each, { recursive: true, force: true })
})

/** Asks a shell what completes each command line, of which the last word is incomplete. */
async function ask(shell: Shell, lines: readonly (readonly string[])[]): Promise<string[][]> {
  const { args, ask: asked, before } = SHELLS[shell]
  const { stdout: script } = await runHere(['completion', shell])
  const questions = lines.map((words) => asked(['inflow', ...words]))
  const program = [before, script, ...questions].join('\n')
  // An argument is too short for it.
  const file = join(programs, `${shell}-${randomUUID()}`)
  await writeFile(file, program)
  const output = await new Promise<string>((resolve, reject) => {
    execFile(shell, [...args, file], { cwd: folder }, (error, stdout, stderr) =>
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
  [
    ...commands.map(({ name }) => name),
    ...operands,
    ...options.flatMap(({ flags }) => flags),
  ].sort()

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

test('bash takes --bank=9PSB for three words', async () => {
  const [found] = await ask('bash', [['account', 'create', '--bank', '=', 'SA']])
  expect(found).toEqual(['SAFEHAVEN'])
})
