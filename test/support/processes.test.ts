import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { makeFolder } from './folder.ts'
import { processesIn, processesOf } from './processes.ts'
import { waitFor } from './wait-for.ts'

/** Starts a process with an argument. @returns its id */
function startProcess(argument: string, cwd = '.'): number {
  const args = ['-e', 'setTimeout(() => {}, 60_000)', argument]
  const child = spawn(process.execPath, args, { stdio: 'ignore', cwd })
  onTestFinished(() => void child.kill('SIGKILL'))
  return child.pid!
}

test('the processes of a folder name it or a file in it, not a path that begins with its name', async () => {
  const folder = await makeFolder('processes')
  const own = new Set([startProcess(folder), startProcess(join(folder, 'service.log'))])
  const other = new Set([startProcess(`${folder}.sh`), startProcess(`${folder}-other/run`)])
  const pidsOf = (...paths: string[]) => new Set(processesOf(...paths).map(({ pid }) => pid))
  await waitFor(() => expect(pidsOf(folder)).toEqual(own))
  await waitFor(() => expect(pidsOf(`${folder}.sh`, `${folder}-other`)).toEqual(other))
  expect(pidsOf(folder)).toEqual(own)
})

test.skipIf(process.platform !== 'linux')(
  'the processes in a folder name it or work in it',
  async () => {
    const folder = await makeFolder('processes')
    const other = await makeFolder('processes')
    const own = new Set([startProcess(folder, other), startProcess('anything', folder)])
    await waitFor(() => expect(new Set(processesIn(folder).map(({ pid }) => pid))).toEqual(own))
  },
)
