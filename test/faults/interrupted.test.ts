import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { makeFolder } from '../support/folder.ts'
import { descendantsOf, listProcesses } from '../support/processes.ts'
import { waitFor, waitUntil } from '../support/wait-for.ts'

const ROOT = join(import.meta.dirname, '../..')

test('a test run that is killed leaves no process, no database and no folder behind', {
  retry: 5,
}, async () => {
  const folder = await makeFolder('interrupted')
  const run = spawn(
    process.execPath,
    [
      join(ROOT, 'node_modules/vitest/vitest.mjs'),
      'run',
      '--config',
      'test/vitest.config.ts',
      'test/postgres/client.test.ts',
    ],
    { cwd: ROOT, env: { ...process.env, CI: '', TMPDIR: folder }, stdio: 'ignore', detached: true },
  )
  const ended = once(run, 'exit')
  onTestFinished(() => void run.kill('SIGKILL'))
  const ofRun = () => listProcesses().filter(({ command }) => command.includes(folder))
  // The file's tests have begun: the run has its database server, and workers.
  await waitUntil(() => {
    if (run.exitCode !== null) throw new Error('the run ended before it was seen')
    return descendantsOf(run.pid!).some(({ command }) => / test_[0-9a-f]{12} /.test(command))
  })
  expect(ofRun()).not.toEqual([])
  run.kill('SIGKILL')
  await ended
  await waitFor(async () => expect(await readdir(folder)).toEqual([]))
  await waitFor(() => expect(ofRun()).toEqual([]))
})
