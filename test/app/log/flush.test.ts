import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { MASTER_KEY } from '../../support/service.ts'

const ROOT = join(import.meta.dirname, '../../..')

// The thread that would write the first line is busy, so it is still to be written when the last one is logged.
const SCRIPT = `
  import { pbkdf2 } from 'node:crypto'
  import { readConfig } from '${ROOT}/src/config/config.ts'
  import { flushLog } from '${ROOT}/src/app/log.ts'
  import { openLog } from '${ROOT}/src/app/start-instance.ts'
  const log = openLog(readConfig({}), undefined)
  const busy = new Promise((done) => pbkdf2('x', 'y', 300_000, 64, 'sha512', done))
  log.info('first')
  await new Promise(setImmediate)
  log.info('second')
  log.child({ worker: 1 }).info('last')
  await flushLog(log)
  process.exit(0)`

test('a process that logs and exits loses no line, and keeps their order', async () => {
  const { stderr } = await promisify(execFile)(
    process.execPath,
    ['--input-type=module', '-e', SCRIPT],
    {
      cwd: ROOT,
      env: {
        PATH: process.env['PATH'],
        UV_THREADPOOL_SIZE: '1',
        MASTER_KEY: MASTER_KEY.toString('base64'),
      },
    },
  )
  const lines = stderr.split('\n').filter((line) => line.startsWith('{'))
  expect(lines.map((line) => JSON.parse(line).msg)).toEqual(['first', 'second', 'last'])
})
