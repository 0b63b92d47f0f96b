import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chown,
  lchown,
  link,
  lstat,
  mkdir,
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
import { createPrivate, syncFolder } from '../../core/private-file.ts'
import { isLive, liveProcess } from './rival.ts'
import { closedFolder, makeOpenFolder, type ServerUser, spawnAs } from './server-user.ts'

interface ClusterOptions {
  /** The absolute path of the cluster, whose parent is a real path. */
  readonly folder: string
  /** The folder of initdb. */
  readonly bin: string
  /** The owner of the cluster; undefined: the current user. */
  readonly user: ServerUser | undefined
  readonly log: (line: string) => void
}

interface Cluster {
  /** The real path of the cluster. */
  readonly path: string
  /** The password of SUPERUSER. */
  readonly password: string
}

export const SUPERUSER = 'inflow'

const INITDB_TIMEOUT_MS = 120_000

/**
 * Returns the cluster in `folder`, and creates it if it does not exist. The creation is atomic and synced to disk: a
 * killed start leaves only temporary files, which the next start removes, and of two concurrent starts, both
 * get the cluster that was created first.
 */
export async function openCluster(options: ClusterOptions): Promise<Cluster> {
  const { folder, user, log } = options
  await removeLeftovers(folder, log)
  if (await isAbsent(folder, user)) {
    const password = await storedPassword(folder)
    await makeCluster(options, password)
  }
  const path = await realpath(folder)
  if (path !== folder) log(`PostgreSQL's files are in ${path}, ${await reasonFor(options)}`)
  if (user !== undefined) await grantAccess(user, path)
  const password = await readFile(passwordFile(folder), 'utf8').catch((cause: unknown) => {
    throw new Error(`cannot read ${passwordFile(folder)}, the password of ${folder}`, { cause })
  })
  return { path, password }
}

/** The reason why the cluster is not in its folder. */
async function reasonFor({ folder, user }: ClusterOptions): Promise<string> {
  const closed = user && (await closedFolder(dirname(folder), user))
  return closed === undefined
    ? `as ${folder} is a link to them`
    : `as ${user?.name} may not enter ${closed}`
}

export function passwordFile(folder: string): string {
  return `${folder}.password`
}

/** Whether to create a cluster. Anything else under that name is an error and is never overwritten. */
async function isAbsent(folder: string, user: ServerUser | undefined): Promise<boolean> {
  const entry = await lstat(folder).catch(() => undefined)
  if (entry === undefined) return true
  const target = await stat(folder).catch(() => undefined)
  if (target === undefined) {
    // The link was created after its cluster, so a cluster existed, perhaps with payments.
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

/** Returns the stored password, or stores a new one that only the current user can read, before the cluster is created. */
async function storedPassword(folder: string): Promise<string> {
  const file = passwordFile(folder)
  const draft = temporaryName(folder)
  await createPrivate(draft, randomBytes(32).toString('hex'))
  // The link fails if the file exists, so that concurrent starts all use the password of the first.
  await link(draft, file).catch(unlessTaken)
  await unlink(draft)
  await syncFolder(dirname(folder))
  return await readFile(file, 'utf8')
}

async function makeCluster(options: ClusterOptions, password: string): Promise<void> {
  const { folder, user, log } = options
  log(`creating a database in ${folder}`)
  const closed = user && (await closedFolder(dirname(folder), user))
  const temporary = temporaryName(folder)
  const id = randomBytes(8).toString('hex')
  const work = closed === undefined ? temporary : join(FALLBACK_FOLDER, id)
  const made = join(work, 'cluster')
  // If this start is killed, the link shows the next start which folder to remove.
  if (closed !== undefined) await symlink(made, temporary)
  try {
    await makeWorkFolder(work, password, user)
    await runInitdb(options, work, made)
    if (closed === undefined) {
      await rename(made, folder).catch(unlessTaken)
    } else {
      await rmdir(folder).catch(() => undefined)
      await symlink(made, folder).catch(unlessTaken)
    }
    await syncFolder(dirname(folder))
  } finally {
    await removeEntry(temporary, folder)
  }
}

/** Creates the folder in which initdb works, with the password in the file `password`. */
async function makeWorkFolder(
  work: string,
  password: string,
  user: ServerUser | undefined,
): Promise<void> {
  await makeOpenFolder(dirname(work))
  await mkdir(work, { mode: 0o700 })
  await writeFile(join(work, 'password'), password, { mode: 0o600 })
  if (user === undefined) return
  // The folder is handed over last: until then no other user can interfere with the files that root creates in it.
  await chown(join(work, 'password'), user.uid, user.gid)
  await chown(work, user.uid, user.gid)
}

/**
 * Runs initdb, which takes about 0.5 s, a fifth of it for the sync. The sync is required: the server did not write these
 * files, so no later checkpoint would sync them.
 */
async function runInitdb(options: ClusterOptions, work: string, made: string): Promise<void> {
  const { bin, user } = options
  const file = join(work, 'password')
  const args = [
    '-D',
    made,
    '-U',
    SUPERUSER,
    '--pwfile',
    file,
    '--auth',
    'scram-sha-256',
    '-E',
    'UTF8',
    // PostgreSQL's builtin provider sorts identically on all machines, and after upgrades of the system.
    '--locale-provider',
    'builtin',
    '--builtin-locale',
    'C.UTF-8',
    '--locale',
    'C',
    '--no-instructions',
  ]
  try {
    await promisify(execFile)(join(bin, 'initdb'), args, {
      ...spawnAs(user),
      timeout: INITDB_TIMEOUT_MS,
    })
  } catch (cause) {
    const output = cause instanceof Error && 'stderr' in cause ? String(cause.stderr).trim() : ''
    throw new Error(`initdb failed: ${output || cause}`, { cause })
  }
  await unlink(file)
  await syncFolder(work)
  await syncFolder(dirname(work))
}

/** Gives PostgreSQL's user access to an existing cluster. */
async function grantAccess(user: ServerUser, path: string): Promise<void> {
  const closed = await closedFolder(dirname(path), user)
  if (closed !== undefined) {
    throw new Error(
      `${user.name}, who is to run PostgreSQL, may not enter ${closed}; ` +
        'let it with chmod a+x, or set DATA_DIR',
    )
  }
  if ((await stat(path)).uid === user.uid) return
  // Root has copied the data folder, so its files belong to root. The folder is changed last: its owner marks completion.
  const names = await readdir(path, { recursive: true })
  for (const entry of [...names.map((name) => join(path, name)), path]) {
    await lchown(entry, user.uid, user.gid)
  }
}

/** Ignores the error if a concurrent start was first. */
function unlessTaken(error: unknown): void {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code !== 'EEXIST' && code !== 'ENOTEMPTY') throw error
}

/** The folder of root's clusters if PostgreSQL's user cannot enter the requested folder. */
const FALLBACK_FOLDER = '/var/lib/inflow'

/** A name for a temporary file or folder, which is not used after this process has ended. */
function temporaryName(folder: string): string {
  const startedAt = liveProcess(process.pid)?.startedAt ?? 0
  return `${folder}.new-${process.pid}-${startedAt}-${randomBytes(4).toString('hex')}`
}

/** Removes the temporary files of killed starts next to the folder, and the targets of their links. */
async function removeLeftovers(folder: string, log: (line: string) => void): Promise<void> {
  const prefix = `${basename(folder)}.new-`
  for (const name of await readdir(dirname(folder))) {
    if (!name.startsWith(prefix)) continue
    const [pid, startedAt] = name.slice(prefix.length).split('-').map(Number)
    if (isLive({ pid: pid ?? 0, startedAt: startedAt ?? 0 })) continue
    // Leftovers must not prevent a start.
    await removeEntry(join(dirname(folder), name), folder).catch((error: unknown) =>
      log(`${error}`),
    )
  }
}

/** Removes a temporary entry. If it is a link, its cluster is removed too, unless `folder` links to the same cluster. */
async function removeEntry(temporary: string, folder: string): Promise<void> {
  const target = await readlink(temporary).catch(() => undefined)
  if (target !== undefined && target !== (await readlink(folder).catch(() => undefined))) {
    const work = dirname(target)
    if (dirname(work) === FALLBACK_FOLDER) await removeAll(work)
  }
  await removeAll(temporary)
}

/** Removes a folder. Retries, because an initdb that outlived its parent may still add files. */
async function removeAll(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 20, retryDelay: 20 })
}
