import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { jsonText, table } from '../../src/cli/output.ts'
import { createProgress } from '../../src/cli/progress.ts'
import { has, ROOT } from '../support/embedded-service.ts'

const COLUMNS = ['name', 'amount'].map((title, at) => ({
  title,
  right: at === 1,
  of: (row: readonly string[]) => row[at] ?? '',
}))

test('numbers are right-aligned, and control characters are replaced', () => {
  const rows = [
    ['Chidi\u001b[2J', '1500.50'],
    ['', '0.07'],
  ]
  expect(table(rows, COLUMNS).split('\n')).toEqual([
    'NAME        AMOUNT',
    'Chidi\u{fffd}[2J  1500.50',
    '-             0.07',
  ])
})

test('JSON contains no character that a terminal acts on, and is read as what was given', () => {
  const name = 'Chidi\u009b2J\u202eidihC'
  const text = jsonText({ name })
  expect(text).toBe('{"name":"Chidi\\u009b2J\\u202eidihC"}')
  expect(JSON.parse(text)).toEqual({ name })
})

/** An output that keeps what is written to it, and a clock that the test sets. */
function createScene(isTTY: boolean, { lines = true, columns = 120 } = {}) {
  const written: string[] = []
  const clock = { nowMs: 5_000 }
  const output = { isTTY, columns, write: (text: string) => written.push(text) }
  const progress = createProgress({ output, now: () => clock.nowMs, lines })
  return { written, clock, progress }
}

const ERASE = '\r\u001b[2K'

describe('progress', () => {
  test('is a bar on a terminal, with share, rate and time left, ten times a second at most', () => {
    const { written, clock, progress } = createScene(true)
    progress.show('reading', 10)
    clock.nowMs += 100
    progress.show('verifying', 0, 4_000)
    clock.nowMs += 50
    progress.show('verifying', 100, 4_000)
    clock.nowMs += 1_950
    progress.show('verifying', 1_000, 4_000)
    progress.show('verifying', 4_000, 4_000)
    progress.end()
    progress.end()
    expect(written).toEqual([
      `${ERASE}reading 10`,
      `${ERASE}verifying [${'-'.repeat(30)}] 0% 0/4,000`,
      `${ERASE}verifying [#######${'-'.repeat(23)}] 25% 1,000/4,000, 500/s, 6 s left`,
      `${ERASE}verifying [${'#'.repeat(30)}] 100% 4,000/4,000, 2,000/s`,
      ERASE,
    ])
  })

  test('never exceeds the width of the terminal', () => {
    const { written, progress } = createScene(true, { columns: 20 })
    progress.show('settling biz_1', 1, 2)
    expect(written[0]?.replace(ERASE, '')).toHaveLength(19)
  })

  test('is a line every ten seconds without a terminal, each stage with its own rate', () => {
    const { written, clock, progress } = createScene(false)
    progress.show('reading', 500)
    clock.nowMs += 10_000
    progress.show('comparing', 90_000, 100_000)
    clock.nowMs += 5_000
    progress.show('comparing', 90_500, 100_000)
    clock.nowMs += 5_000
    progress.show('comparing', 91_000, 1_000_000)
    progress.end()
    expect(written).toEqual([
      'comparing: 90,000 of about 100,000 (90%)\n',
      'comparing: 91,000 of about 1,000,000 (9%), 100/s, 2 h 31 min left\n',
    ])
  })

  test('has no lines with --json', () => {
    const { written, clock, progress } = createScene(false, { lines: false })
    clock.nowMs += 60_000
    progress.show('verifying', 1)
    expect(written).toEqual([])
  })
})

/** The program that gives a command a terminal of its own. */
const TERMINAL = 'script'

/** Shows progress, a table of two rows and a time, on a terminal with 61 columns. */
const SCRIPT = `
Object.defineProperty(process.stdout, 'columns', { value: 61 })
const { noteZone, table } = await import('${join(ROOT, 'src/cli/output.ts')}')
const { commandProgress } = await import('${join(ROOT, 'src/cli/progress.ts')}')
const { localTime } = await import('${join(ROOT, 'src/cli/options.ts')}')
const progress = commandProgress(false)
progress.show('verifying', 1500, 3000)
progress.end()
const rows = [
  ['biz_01jd9w3k6t8v2x4z6b8d0f2h4j', 'Chukwuemeka Odumegwu Adébáyọ̀ and Sons', '1500.50'],
  ['biz_01jd9w3k6t8v2x4z6b8d0f2h4k', 'Ada', '7.00'],
]
const columns = ['id', 'name', 'amount'].map((title, at) => ({ title, right: at === 2, of: (row) => row[at] }))
process.stdout.write(table(rows, columns) + '\\n')
localTime.format({ seconds: 0n, nanos: 0 })
noteZone()`

test.skipIf(!has(TERMINAL))(
  'a terminal shows progress until the result, in which texts are cut, and ids and amounts are not',
  () => {
    const env = { ...process.env, SCRIPT, NO_COLOR: '1', DISPLAY_TIME_ZONE: 'Africa/Lagos' }
    const command = `${process.execPath} --input-type=module -e "$SCRIPT"`
    const options = { encoding: 'utf8', env } as const
    const drawn = execFileSync(TERMINAL, ['-qec', command, '/dev/null'], options)
    const [progress, result = ''] = drawn.split(
      new RegExp(`${ERASE.replace('[', '\\[')}(?=ID|.\\[1m)`),
    )
    expect(progress).toContain(`verifying [${'#'.repeat(15)}`)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: styles of the terminal
    expect(result.replaceAll(/\u001b\[\d+m/g, '').split('\r\n')).toEqual([
      'ID                              NAME                   AMOUNT',
      'biz_01jd9w3k6t8v2x4z6b8d0f2h4j  Chukwuemeka Odumegw…  1500.50',
      'biz_01jd9w3k6t8v2x4z6b8d0f2h4k  Ada                      7.00',
      'Times are in Africa/Lagos.',
      '',
    ])
  },
)
