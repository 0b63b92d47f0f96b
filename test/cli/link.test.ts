import { execFile } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { temporaryFolder } from './run-inflow.ts'

vi.setConfig({ testTimeout: 30_000 })

const SOURCE = join(import.meta.dirname, '../../src/cli')
const STUB = 'console.log(JSON.stringify(process.argv.slice(2)), process.execPath)\n'

interface Outcome {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** A project with only the command, without execute bits. */
function project({ ownNode = true } = {}): string {
  const root = temporaryFolder()
  mkdirSync(join(root, 'src/cli/deep'), { recursive: true })
  mkdirSync(join(root, 'node_modules/.bin'), { recursive: true })
  for (const name of ['link.ts', 'launcher.sh']) {
    copyFileSync(join(SOURCE, name), join(root, 'src/cli', name))
    chmodSync(join(root, 'src/cli', name), 0o644)
  }
  writeFileSync(join(root, 'src/cli/inflow.ts'), STUB)
  writeFileSync(join(root, 'package.json'), '{"name": "inflow", "private": true, "type": "module"}')
  if (ownNode) symlinkSync(process.execPath, join(root, 'node_modules/.bin/node'))
  return root
}

function run(file: string, args: readonly string[], cwd: string, path = ''): Promise<Outcome> {
  const env = {
    ...process.env,
    PATH: path + (process.env['PATH'] ?? ''),
    npm_config_offline: 'true',
  }
  return new Promise((done) => {
    execFile(file, args, { cwd, env }, (error, stdout, stderr) => {
      done({ code: error ? Number(error.code) : 0, stdout, stderr })
    })
  })
}

const link = (root: string) => run(process.execPath, ['src/cli/link.ts'], root)

test('npx runs the command from the project and its subfolders, without the network', async () => {
  const root = project()
  expect(await link(root)).toEqual({ code: 0, stdout: '', stderr: '' })
  for (const folder of [root, join(root, 'src/cli/deep')]) {
    const { code, stdout } = await run('npx', ['inflow', 'a b', '--help'], folder)
    expect(code).toBe(0)
    expect(stdout).toMatch(/^\["a b","--help"\] /)
  }
})

test('linking again replaces the command, and never writes through a symlink', async () => {
  const root = project()
  const command = join(root, 'node_modules/.bin/inflow')
  symlinkSync('../../src/cli/inflow.ts', command)
  for (let i = 0; i < 2; i++) expect(await link(root)).toMatchObject({ code: 0 })
  expect(readFileSync(join(root, 'src/cli/inflow.ts'), 'utf8')).toBe(STUB)
  expect(statSync(command).mode & 0o777).toBe(0o755)
  rmSync(join(root, 'node_modules'), { recursive: true })
  expect(await link(root)).toMatchObject({ code: 0 })
})

test("the project's own Node runs the command, also through a symlink elsewhere", async () => {
  const root = project()
  await link(root)
  const elsewhere = join(temporaryFolder(), 'inflow')
  symlinkSync(join(root, 'node_modules/.bin/inflow'), elsewhere)
  const { stdout } = await run(elsewhere, ['x'], '/', `${fakeNode('v20.20.2')}:`)
  expect(stdout).toBe(`["x"] ${process.execPath}\n`)
})

test('with an old Node and none in the project, one line names the required version', async () => {
  const root = project({ ownNode: false })
  await link(root)
  const command = join(root, 'node_modules/.bin/inflow')
  const { code, stdout, stderr } = await run(command, ['--help'], root, `${fakeNode('v20.20.2')}:`)
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(/^error: inflow needs Node 22\.19 or newer \(found: v20\.20\.2\); .*\n$/)
})

/** A folder with a `node` that cannot run TypeScript. */
function fakeNode(version: string): string {
  const folder = temporaryFolder()
  const script = `#!/bin/sh\n[ "$1" = --version ] && echo ${version} && exit\nexit 1\n`
  writeFileSync(join(folder, 'node'), script, { mode: 0o755 })
  return folder
}
