import { spawn } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { ENTITIES } from '../../src/app/entities.ts'
import { startEmbedded } from '../../src/postgres/embedded/embedded.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { openDatabase } from '../../src/postgres/orm.ts'
import { createTemplate, dropTestDatabases } from './database.ts'
import { makeFolder, parentOfRun } from './folder.ts'
import { findPostgres, startPostgres, TEST_SETTINGS } from './postgres-server.ts'
import { killAll, orphansOf, processesOf } from './processes.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The server of the tests' databases. */
    serverUrl: string
  }
}

const ROOT = join(import.meta.dirname, '../..')

/**
 * Starts the keeper, which cleans up after a run that is interrupted or killed.
 *
 * @param spared processes from before the run, which it does not kill
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
 * The server of the tests' databases: what `TEST_DATABASE_SERVER` names, by a superuser's URL. Else Debian's in its
 * default configuration where it is installed, as users have that, else an embedded one.
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
 * One PostgreSQL for all tests, with a migrated template that each test file clones. All temporary folders
 * of the run are in one.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = await makeFolder('test', parentOfRun())
  // Also those that have a parent: it may end during the run.
  const before = new Set(processesOf(ROOT, folder).map(({ pid }) => pid))
  startKeeper(folder, before)
  process.env['TMPDIR'] = folder
  const postgres = await openServer(join(folder, 'postgres'))
  const templateUrl = await createTemplate(postgres.url)
  const database = await openDatabase(templateUrl, ENTITIES, { connectionsMax: 2 })
  await migrate(database)
  await database.close()
  project.provide('serverUrl', postgres.url)
  return async () => {
    await postgres.stop()
    await rm(folder, { recursive: true, force: true })
    const killed = killAll(orphansOf(ROOT, folder).filter(({ pid }) => !before.has(pid)))
    if (killed !== '') throw new Error(`the tests left processes behind:\n${killed}`)
  }
}
