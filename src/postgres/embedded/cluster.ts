import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chown,
  lchown,
  link,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  rmdir,
  stat,
  symlink,
  unlink,
  writeFile,
} from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { isLive, liveProcess } from './process.ts'
import { closedFolder, makeOpenFolder, type ServerUser, spawnAs } from './server-user.ts'

interface ClusterOptions {
  /** Its name: an absolute path whose parent is a real path. */
  readonly folder: string
  /** Folder of initdb. */
  readonly bin: string
  /** Who is to own it; undefined is ourselves. */
  readonly user: ServerUser | undefined
  readonly log: (line: string) => void
}

interface Cluster {
  /** Where it really is. */
  readonly path: string
  /** Of the superuser, SUPERUSER. */
  readonly password: string
}

export const SUPERUSER = 'inflow'

/** Where root's clusters are when PostgreSQL's user may not enter the folder they were meant for. */
const ELSEWHERE = '/var/lib/inflow'

const INITDB_TIMEOUT_MS = 120_000

/**
 * The cluster in `folder`, made now if there is none. It comes into being in one step, complete and
 * on disk, so a start that is killed leaves only waste, which the next one removes; and of two
 * starts at once, both get the cluster of one.
 */
export async function openCluster(options: ClusterOptions): Promise<Cluster> {
  const { folder, user, log } = options
  await removeWaste(folder, log)
  if (await isAbsent(folder, user)) {
    const password = await keptPassword(folder)
    await makeCluster(options, password)
  }
  const path = await realpath(folder)
  if (user !== undefined) await admit(user, path)
  const password = await readFile(passwordFile(folder), 'utf8').catch((cause: unknown) => {
    throw new Error(`cannot read ${passwordFile(folder)}, the password of ${folder}`, { cause })
  })
  return { path, password }
}

export function passwordFile(folder: string): string {
  return `${folder}.password`
}

/** Whether a cluster is to be made. Anything else that has the name is an error, never overwritten. */
async function isAbsent(folder: string, user: ServerUser | undefined): Promise<boolean> {
  const entry = await lstat(folder).catch(() => undefined)
  if (entry === undefined) return true
  const target = await stat(folder).catch(() => undefined)
  if (target === undefined) {
    // The link is made after the cluster, so there was one, maybe with payments in it.
    throw new Error(
      `${folder} leads to ${await readlink(folder)}, which is gone; ` +
        'put it back, or remove the link to begin with an empty database',
    )
  }
  if (user === undefined && target.uid !== process.getuid?.()) {
    throw new Error(
      `${folder} belongs to user ${target.uid}; ` +
        'start Inflow as root or as that user, or set DATA_DIR',
    )
  }
  const names = await readdir(folder)
  if (names.includes('PG_VERSION')) return false
  if (names.length === 0) return true
  throw new Error(`${folder} holds files that are not a PostgreSQL cluster; set DATA_DIR`)
}

/** A password only we can read, on disk before there is a cluster that needs it. */
async function keptPassword(folder: string): Promise<string> {
  const file = passwordFile(folder)
  const draft = wasteName(folder)
  await writeFile(draft, randomBytes(32).toString('hex'), { mode: 0o600, flush: true })
  // Linking fails if the file is there: the first start's password is everyone's.
  await link(draft, file).catch(unlessTaken)
  await unlink(draft)
  await syncFolder(dirname(folder))
  return await readFile(file, 'utf8')
}

async function makeCluster(options: ClusterOptions, password: string): Promise<void> {
  const { folder, user, log } = options
  log(`creating a database in ${folder}`)
  const closed = user && (await closedFolder(dirname(folder), user))
  const waste = wasteName(folder)
  const id = randomBytes(8).toString('hex')
  const work = closed === undefined ? waste : join(ELSEWHERE, id)
  const made = join(work, 'cluster')
  // The link tells the next start what to remove if this one is killed.
  if (closed !== undefined) await symlink(made, waste)
  try {
    await makeWorkFolder(work, password, user)
    await runInitdb(options, work, made)
    if (closed === undefined) {
      await rename(made, folder).catch(unlessTaken)
    } else {
      await rmdir(folder).catch(() => undefined)
      await symlink(made, folder).catch(unlessTaken)
      log(`PostgreSQL's files are in ${made}, as ${user?.name} may not enter ${closed}`)
    }
    await syncFolder(dirname(folder))
  } finally {
    await removeEntry(waste, folder)
  }
}

/** For initdb to work in, with the password it is to read in `password`. */
async function makeWorkFolder(
  work: string,
  password: string,
  user: ServerUser | undefined,
): Promise<void> {
  await makeOpenFolder(dirname(work))
  await mkdir(work, { mode: 0o700 })
  await writeFile(join(work, 'password'), password, { mode: 0o600 })
  if (user === undefined) return
  // The folder last: until then nobody else can meddle with what root does in it.
  await chown(join(work, 'password'), user.uid, user.gid)
  await chown(work, user.uid, user.gid)
}

/**
 * Takes some 0.5 s, a fifth of it to sync. It has to sync: no later checkpoint would, since to the
 * server these files are old ones that it did not write.
 */
async function runInitdb(options: ClusterOptions, work: string, made: string): Promise<void> {
  const { bin, user } = options
  const file = join(work, 'password')
  const args = [
    ...['-D', made, '-U', SUPERUSER, '--pwfile', file, '--auth', 'scram-sha-256', '-E', 'UTF8'],
    // The provider within PostgreSQL sorts alike on all machines, and after upgrades of theirs.
    ...['--locale-provider', 'builtin', '--builtin-locale', 'C.UTF-8', '--locale', 'C'],
    '--no-instructions',
  ]
  try {
    await promisify(execFile)(join(bin, 'initdb'), args, {
      ...spawnAs(user),
      timeout: INITDB_TIMEOUT_MS,
    })
  } catch (cause) {
    const said = cause instanceof Error && 'stderr' in cause ? String(cause.stderr).trim() : ''
    throw new Error(`initdb failed: ${said || cause}`, { cause })
  }
  await unlink(file)
  await syncFolder(work)
  await syncFolder(dirname(work))
}

/** Sees to it that PostgreSQL's user can use an existing cluster. */
async function admit(user: ServerUser, path: string): Promise<void> {
  const closed = await closedFolder(dirname(path), user)
  if (closed !== undefined) {
    throw new Error(
      `${user.name}, who is to run PostgreSQL, may not enter ${closed}; ` +
        'let it with chmod a+x, or set DATA_DIR',
    )
  }
  if ((await stat(path)).uid === user.uid) return
  // As after a restore by root from a backup. The folder comes last, as the sign that all is done.
  const names = await readdir(path, { recursive: true })
  for (const entry of [...names.map((name) => join(path, name)), path]) {
    await lchown(entry, user.uid, user.gid)
  }
}

/** A name for something of ours that is worth nothing once this process is gone. */
function wasteName(folder: string): string {
  const startedAt = liveProcess(process.pid)?.startedAt ?? 0
  return `${folder}.new-${process.pid}-${startedAt}-${randomBytes(4).toString('hex')}`
}

/** Removes what starts that were killed left beside the folder, and what that points to. */
async function removeWaste(folder: string, log: (line: string) => void): Promise<void> {
  const prefix = `${basename(folder)}.new-`
  for (const name of await readdir(dirname(folder))) {
    if (!name.startsWith(prefix)) continue
    const [pid, startedAt] = name.slice(prefix.length).split('-').map(Number)
    if (isLive({ pid: pid ?? 0, startedAt: startedAt ?? 0 })) continue
    // Waste is no reason not to start.
    await removeEntry(join(dirname(folder), name), folder).catch((error: unknown) =>
      log(`${error}`),
    )
  }
}

/** A link's cluster goes too, unless `folder` leads to it. */
async function removeEntry(waste: string, folder: string): Promise<void> {
  const target = await readlink(waste).catch(() => undefined)
  if (target !== undefined && target !== (await readlink(folder).catch(() => undefined))) {
    const work = dirname(target)
    if (dirname(work) === ELSEWHERE) await removeAll(work)
  }
  await removeAll(waste)
}

/** An initdb that outlived its parent may add files while we remove them. */
async function removeAll(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 20, retryDelay: 20 })
}

/** Makes a name in the folder last through a power failure. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Someone else's being first is no failure. */
function unlessTaken(error: unknown): void {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code !== 'EEXIST' && code !== 'ENOTEMPTY') throw error
}
