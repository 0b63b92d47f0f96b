import { once } from 'node:events'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startProgram } from '../support/program.ts'
import { MASTER_KEY } from '../support/service.ts'

const ROOT = join(import.meta.dirname, '../..')

// The thread that would write the first line waits for the test, so the first is still to be written while the
// process waits for its log.
const SCRIPT = `
  import { read } from 'node:fs'
  import { readConfig } from '${ROOT}/src/config/config.ts'
  import { flushLog } from '${ROOT}/src/app/log.ts'
  import { openLog } from '${ROOT}/src/app/start-instance.ts'
  const log = openLog(readConfig({}), undefined)
  read(0, () => {})
  log.info('first')
  await new Promise(setImmediate)
  log.info('second')
  log.child({ worker: 1 }).info('last')
  setImmediate(() => process.stdout.write('waiting'))
  await flushLog(log)
  process.exit(0)`

test('a process that logs and exits loses no line, and keeps their order', async () => {
  const { child, exited, stderr } = startProgram(
    [process.execPath, '--input-type=module', '-e', SCRIPT],
    { UV_THREADPOOL_SIZE: '1', MASTER_KEY: MASTER_KEY.toString('base64') },
    { cwd: ROOT, stdin: 'pipe' },
  )
  // A process that does not wait writes the others when it exits.
  await Promise.race([once(child.stdout!, 'data'), once(child.stderr!, 'data'), exited])
  child.stdin!.end('x')
  await exited
  const lines = stderr()
    .split('\n')
    .filter((line) => line.startsWith('{'))
  expect(lines.map((line) => JSON.parse(line).msg)).toEqual(['first', 'second', 'last'])
})
