import { readFile, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { Pool } from 'pg'
import { type AtEnd, copyCluster, ownAlike, startServer } from '../faults/standby.ts'
import { migrated } from '../support/database.ts'
import { makeFolder } from '../support/folder.ts'
import { createMovedClock, type MovedClock } from '../support/moved-clock.ts'
import { descendantsOf, killAll, listProcesses } from '../support/processes.ts'
import { startProxy } from '../support/proxy.ts'
import { waitFor, waitUntil } from '../support/wait-for.ts'

/**
 * A PostgreSQL server that can crash, fail over to a copy without the last commits, and be restored. A proxy keeps the
 * address constant.
 */
export interface PayoutDatabase {
  readonly url: string
  readonly pool: Pool
  readonly clock: MovedClock
  /** Kills all processes of the server at once, and starts it again. */
  crash(): Promise<void>
  /** Copies the current state of the server. */
  copy(): Promise<void>
  hasCopy(): boolean
  removeCopy(): Promise<void>
  /** Kills the server and promotes the copy: a standby that lagged behind. */
  failOver(): Promise<void>
  /** Replaces the server by the copy, as an operator restores an older copy of the data folder. */
  restore(): Promise<void>
}

const SETTINGS = {
  wal_level: 'replica',
  hot_standby: 'on',
  max_connections: '200',
  shared_buffers: '128MB',
}

/** @param atEnd registers what ends the database; what was registered last must run first */
export async function startPayoutDatabase(atEnd: AtEnd): Promise<PayoutDatabase> {
  const parent = await makeFolder('payouts')
  atEnd(() => rm(parent, { recursive: true, force: true }))
  const start = (folder: string) => startServer(folder, atEnd, SETTINGS)
  let folder = join(parent, 'server-1')
  let server = await start(folder)
  let servers = 1
  let copied: string | undefined
  const proxy = await startProxy(() => server.url, atEnd)
  const url = proxy.through
  await migrated(server.url)
  const pool = openPool(url, 4)
  atEnd(() => pool.end())
  const clock = await createMovedClock(pool)
  const kill = async () => {
    await killServer(folder)
    await server.stop()
  }
  /** Callers reach the copy once it is ready. */
  const replace = async (prepare: (copy: Pool) => Promise<unknown>, isStandby: boolean) => {
    if (copied === undefined) throw new RangeError('there is no copy')
    await kill()
    const replaced = folder
    if (isStandby) {
      await writeFile(join(copied, 'standby.signal'), '')
      await ownAlike(copied, copied, 'standby.signal')
    }
    const next = await start(copied)
    const direct = openPool(next.url, 1)
    await prepare(direct)
    await clock.set(direct)
    await direct.end()
    folder = copied
    server = next
    copied = undefined
    await rm(replaced, { recursive: true, force: true })
    await waitFor(() => pool.query('select'))
  }
  return {
    url,
    pool,
    clock,
    async crash() {
      await kill()
      server = await start(folder)
      await waitFor(() => pool.query('select'))
    },
    async copy() {
      servers += 1
      copied = join(parent, `server-${servers}`)
      await copyCluster(server.url, folder, copied)
    },
    hasCopy: () => copied !== undefined,
    async removeCopy() {
      if (copied !== undefined) await rm(copied, { recursive: true, force: true })
      copied = undefined
    },
    failOver: () => replace((copy) => copy.query('select pg_promote()'), true),
    // It has the cluster and the timeline of the lost one, so the guide has operators begin an epoch by hand.
    restore: () => replace((copy) => copy.query('select bump_event_epoch()'), false),
  }
}

function openPool(connectionString: string, max: number): Pool {
  // A connection that breaks is replaced.
  return new Pool({ connectionString, max }).on('error', () => undefined)
}

/** Kills the postmaster and its children at once: none of them ends in an orderly way. */
async function killServer(folder: string): Promise<void> {
  const [pid] = (await readFile(join(folder, 'postmaster.pid'), 'utf8')).split('\n').map(Number)
  const own = { pid: pid as number, parent: process.pid, command: basename(folder) }
  // It starts no process that is not killed, and that would keep its memory from the next server.
  process.kill(own.pid, 'SIGSTOP')
  const all = [own, ...descendantsOf(own.pid)]
  killAll(all)
  await waitUntil(() => !listProcesses().some(({ pid }) => all.some((each) => each.pid === pid)))
}
