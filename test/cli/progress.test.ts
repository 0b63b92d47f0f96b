import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createProgress } from '../../src/cli/progress.ts'
import { has } from '../support/embedded-service.ts'

const MODULE = join(import.meta.dirname, '../../src/cli/progress.ts')

/** An output that keeps what is written to it, and a clock that the test sets. */
function createScene(isTTY: boolean, lines = true) {
  const written: string[] = []
  const clock = { nowMs: 5_000 }
  const output = { isTTY, columns: 120, write: (text: string) => written.push(text) }
  const progress = createProgress({ output, now: () => clock.nowMs, lines })
  return { written, clock, progress }
}

const ERASE = '\r\u001b[2K'

test('a terminal shows a bar with share, rate and time left, ten times a second at most', () => {
  const { written, clock, progress } = createScene(true)
  progress.show('verifying', 0, 4_000)
  clock.nowMs += 50
  progress.show('verifying', 100, 4_000)
  clock.nowMs += 1_950
  progress.show('verifying', 1_000, 4_000)
  progress.end()
  progress.end()
  expect(written).toEqual([
    `${ERASE}verifying [${'-'.repeat(30)}] 0% 0/4,000`,
    `${ERASE}verifying [#######${'-'.repeat(23)}] 25% 1,000/4,000, 500/s, 6 s left`,
    ERASE,
  ])
})

test('a terminal shows the end at once, and no bar where the total is unknown', () => {
  const { written, clock, progress } = createScene(true)
  progress.show('reading', 10)
  progress.show('comparing', 1, 2)
  clock.nowMs += 10
  progress.show('comparing', 2, 2)
  expect(written).toEqual([`${ERASE}reading 10`, `${ERASE}comparing [${'#'.repeat(30)}] 100% 2/2`])
})

test('a line never exceeds the width of the terminal', () => {
  const written: string[] = []
  const output = { isTTY: true, columns: 20, write: (text: string) => written.push(text) }
  createProgress({ output, now: () => 0, lines: true }).show('settling biz_1', 1, 2)
  expect(written[0]?.replace(ERASE, '')).toHaveLength(19)
})

test('without a terminal there is a line every ten seconds', () => {
  const { written, clock, progress } = createScene(false)
  for (let second = 0; second < 25; second++) {
    progress.show('verifying', second * 1_000, 100_000)
    clock.nowMs += 1_000
  }
  progress.end()
  expect(written).toEqual([
    'verifying: 10,000 of about 100,000 (10%), 1,000/s, 1 min 30 s left\n',
    'verifying: 20,000 of about 100,000 (20%), 1,000/s, 1 min 20 s left\n',
  ])
})

test('each stage has its own rate, from where it began', () => {
  const { written, clock, progress } = createScene(false)
  progress.show('reading', 500)
  clock.nowMs += 10_000
  progress.show('comparing', 90_000, 100_000)
  clock.nowMs += 10_000
  progress.show('comparing', 91_000, 1_000_000)
  expect(written).toEqual([
    'comparing: 90,000 of about 100,000 (90%)\n',
    'comparing: 91,000 of about 1,000,000 (9%), 100/s, 2 h 31 min left\n',
  ])
})

test('with --json there are no lines', () => {
  const { written, clock, progress } = createScene(false, false)
  progress.show('verifying', 0)
  clock.nowMs += 60_000
  progress.show('verifying', 1)
  expect(written).toEqual([])
})

/** The program that gives a command a terminal of its own. */
const TERMINAL = 'script'

/** Shows the progress of a command that takes a moment, as commands do. */
const SCRIPT = `
const { commandProgress } = await import('${MODULE}')
const progress = commandProgress(false)
progress.show('verifying', 1500, 3000)
progress.end()
process.stdout.write('the result')`

test.skipIf(!has(TERMINAL))('a command draws on its terminal, and erases before the result', () => {
  const command = `${process.execPath} --input-type=module -e "$SCRIPT"`
  const options = { encoding: 'utf8', env: { ...process.env, SCRIPT } } as const
  const drawn = execFileSync(TERMINAL, ['-qec', command, '/dev/null'], options)
  expect(drawn).toContain(`${ERASE}verifying [${'#'.repeat(15)}`)
  expect(drawn).toContain('50% 1,500/3,000')
  expect(drawn.endsWith(`${ERASE}the result`)).toBe(true)
})

test('a command whose output goes to a pipe writes the result alone', () => {
  const args = ['--input-type=module', '-e', SCRIPT]
  expect(execFileSync(process.execPath, args, { encoding: 'utf8' })).toBe('the result')
})
