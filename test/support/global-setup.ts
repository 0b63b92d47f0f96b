import { spawn } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TestProject } from 'vitest/node'
import { startEmbedded } from '../../src/postgres/embedded/embedded.ts'
import { createTemplate, dropTestDatabases, migrated } from './database.ts'
import { makeFolder, parentOfRun } from './folder.ts'
import { findPostgres, startPostgres, TEST_SETTINGS } from './postgres-server.ts'
import { killAll, orphansOf, processesOf } from './processes.ts'
import { SEED } from './random.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The server of the tests' databases. */
    serverUrl: string
  }
}

const ROOT = join(import.meta.dirname, '../..')

/**
 * Starts the keeper, which cleans up after a run that was interrupted or killed.
 *
 * @param spared processes from before the run, which the keeper does not kill
 */
function startKeeper(folder: string, spared: Iterable<number>): void {
  const keeper = spawn(
    process.execPath,
    [join(import.meta.dirname, 'keeper.ts'), ROOT, folder, [...spared].join(',')],
    // In a process group of its own: what kills the group of the run leaves it alive.
    { stdio: ['pipe', 'ignore', 'inherit'], detached: true },
  )
  keeper.unref()
}

/**
 * The server of the tests' databases: the server of `TEST_DATABASE_SERVER`, the URL of a superuser. Otherwise Debian's server
 * in its default configuration, if it is installed, because users have that; otherwise an embedded server.
 */
async function openServer(
  folder: string,
): Promise<{ readonly url: string; stop(): Promise<void> }> {
  const given = process.env['TEST_DATABASE_SERVER']
  if (given) return { url: given, stop: () => dropTestDatabases(given) }
  const bin = findPostgres()
  if (bin !== undefined) return startPostgres({ bin, folder, settings: TEST_SETTINGS })
  return startEmbedded({ folder, settings: TEST_SETTINGS })
}

/**
 * One PostgreSQL server for all tests, with a migrated template that each test file clones. All temporary folders
 * of the run are in one folder.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  console.log(`SEED=${SEED}`)
  const folder = await makeFolder('test', parentOfRun())
  // Also those that have a parent: it may end during the run.
  const before = new Set(processesOf(ROOT, folder).map(({ pid }) => pid))
  startKeeper(folder, before)
  process.env['TMPDIR'] = folder
  const postgres = await openServer(join(folder, 'postgres'))
  const templateUrl = await createTemplate(postgres.url)
  await migrated(templateUrl)
  project.provide('serverUrl', postgres.url)
  return async () => {
    await postgres.stop()
    await rm(folder, { recursive: true, force: true })
    const left = () => orphansOf(ROOT, folder).filter(({ pid }) => !before.has(pid))
    // One whose parent was killed ends by itself.
    for (let tries = 0; tries < 100 && left().length > 0; tries++) await sleep(100)
    const killed = killAll(left())
    if (killed !== '') throw new Error(`the tests left processes behind:\n${killed}`)
  }
}
