import { execFile } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  globSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { temporaryFolder } from '../support/folder.ts'
import { listen } from '../support/listen.ts'

const ROOT = join(import.meta.dirname, '../..')
const SOURCE = join(ROOT, 'src/cli')
const STUB = 'console.log(JSON.stringify(process.argv.slice(2)), process.execPath)\n'

/** Without what npm sets for this run, such as the folder of the project. */
const CLEAN = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !name.startsWith('npm_')),
)

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
  writeFileSync(join(root, 'package.json'), '{"private": true, "type": "module"}')
  if (ownNode) symlinkSync(process.execPath, join(root, 'node_modules/.bin/node'))
  return root
}

function run(
  file: string,
  args: readonly string[],
  cwd: string,
  path = '',
  more: NodeJS.ProcessEnv = { npm_config_offline: 'true' },
): Promise<Outcome> {
  const env = { ...CLEAN, PATH: path + (process.env['PATH'] ?? ''), ...more }
  return new Promise((done) => {
    execFile(file, args, { cwd, env }, (error, stdout, stderr) => {
      done({ code: error ? Number(error.code) : 0, stdout, stderr })
    })
  })
}

const link = (root: string) => run(process.execPath, ['src/cli/link.ts'], root)

test('npx runs the command from a subfolder of the project, without the network', async () => {
  const root = project()
  expect(await link(root)).toEqual({ code: 0, stdout: '', stderr: '' })
  const { code, stdout } = await run('npx', ['inflow', 'a b', '--help'], join(root, 'src/cli/deep'))
  expect(code).toBe(0)
  expect(stdout).toMatch(/^\["a b","--help"\] /)
})

test('before npm ci, npx runs no package of the same name from the registry', async () => {
  const root = project()
  const stranger = temporaryFolder()
  const manifest = { name: 'inflow', version: '9.9.9', bin: { inflow: 'run.js' } }
  writeFileSync(join(stranger, 'package.json'), JSON.stringify(manifest))
  writeFileSync(join(stranger, 'run.js'), '#!/usr/bin/env node\nconsole.log("a stranger")\n')
  expect((await run('npm', ['pack'], stranger)).code).toBe(0)
  const tarball = readFileSync(join(stranger, 'inflow-9.9.9.tgz'))
  const registry = createServer(({ url, headers: { host } }, response) => {
    if (url !== '/inflow') return response.end(tarball)
    const dist = { tarball: `http://${host}/inflow.tgz` }
    const versions = { '9.9.9': { ...manifest, dist } }
    return response.end(JSON.stringify({ 'dist-tags': { latest: '9.9.9' }, versions }))
  })
  onTestFinished(() => void registry.close())
  const env = {
    npm_config_registry: `http://127.0.0.1:${await listen(registry)}`,
    // The settings of this machine are not those of every reader.
    npm_config_userconfig: join(stranger, 'none'),
    npm_config_globalconfig: join(stranger, 'none either'),
  }
  // What it has downloaded once, it runs again.
  const npx = (folder: string) =>
    run('npx', ['inflow'], folder, '', { ...env, npm_config_cache: temporaryFolder() })
  // Elsewhere it does.
  expect(await npx(temporaryFolder())).toMatchObject({ code: 0, stdout: 'a stranger\n' })
  copyFileSync(join(ROOT, '.npmrc'), join(root, '.npmrc'))
  for (const folder of [root, join(root, 'src/cli/deep')]) {
    const { code, stdout, stderr } = await npx(folder)
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toContain('npx canceled due to missing packages')
  }
})

test('what is read outside of the folder never names npx inflow', () => {
  const paths = globSync('src/**/*.{ts,tsx,html}', { cwd: ROOT }).concat('src/client/npm/README.md')
  const named = paths.filter((path) => /npx inflow/.test(readFileSync(join(ROOT, path), 'utf8')))
  expect(named).toEqual(['src/cli/link.ts'])
  const { name } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  expect(name).toMatch(/^@inflow-payments\//)
})

test("the project's own Node runs the command, also through a symlink elsewhere", async () => {
  const root = project()
  const command = join(root, 'node_modules/.bin/inflow')
  symlinkSync('../../src/cli/inflow.ts', command)
  for (let i = 0; i < 2; i++) expect(await link(root)).toMatchObject({ code: 0 })
  // It is replaced, not written through.
  expect(readFileSync(join(root, 'src/cli/inflow.ts'), 'utf8')).toBe(STUB)
  expect(statSync(command).mode & 0o777).toBe(0o755)
  const elsewhere = join(temporaryFolder(), 'inflow')
  symlinkSync(command, elsewhere)
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
