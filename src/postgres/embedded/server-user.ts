import { readFileSync, statSync } from 'node:fs'
import { chmod, mkdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** The unprivileged user PostgreSQL runs as when we are root. */
export interface ServerUser {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

/** Tried in this order. initdb looks its user up, so a bare number without an entry will not do. */
const NAMES = ['postgres', 'nobody'] as const

const SEARCH_BIT = 0o1
const READ_BIT = 0o4

/**
 * PostgreSQL refuses to run as root, so root hands it to an unprivileged user: the one that owns
 * the cluster, if there is one already. Undefined when we are an ordinary user, and run it ourselves.
 */
export function serverUser(folder: string): ServerUser | undefined {
  if (process.getuid?.() !== 0) return undefined
  const users = passwdUsers()
  const version = statSync(join(folder, 'PG_VERSION'), { throwIfNoEntry: false })
  if (version !== undefined && version.uid !== 0) {
    const { uid, gid } = version
    return users.find((user) => user.uid === uid) ?? { name: `user ${uid}`, uid, gid }
  }
  for (const name of NAMES) {
    const user = users.find((candidate) => candidate.name === name)
    if (user !== undefined) return user
  }
  throw new Error(
    `PostgreSQL does not run as root, and /etc/passwd has no user ${NAMES.join(' or ')}; ` +
      'start Inflow as an ordinary user, or set DATABASE_URL to a PostgreSQL of your own',
  )
}

/** Options of child_process that make the child run as `user`, from a folder it may enter. */
export function spawnAs(user: ServerUser | undefined) {
  return {
    // We read its messages, so they have to be in English. It needs nothing else from ours.
    env: { LC_ALL: 'C' },
    cwd: '/',
    // Node takes ids as signed numbers here; macOS has nobody as -2.
    ...(user && { uid: user.uid | 0, gid: user.gid | 0 }),
  }
}

/**
 * The outermost of `folder` (a real path) and the folders above it that `user` may not enter, or
 * undefined if all are open. Mode bits decide; an access control list that grants more is not seen,
 * which costs no more than a copy elsewhere.
 */
export async function closedFolder(folder: string, user: ServerUser): Promise<string | undefined> {
  const parent = dirname(folder)
  const above = parent === folder ? undefined : await closedFolder(parent, user)
  if (above !== undefined) return above
  return (await grants(folder, user, SEARCH_BIT)) ? undefined : folder
}

/** Whether mode bits let `user` read the file; the folders above it are closedFolder's business. */
export function mayRead(file: string, user: ServerUser): Promise<boolean> {
  return grants(file, user, READ_BIT)
}

/** Whatever the umask, a folder made by this is open to all; an existing one is as it is. */
export async function makeOpenFolder(folder: string): Promise<void> {
  const made = await mkdir(folder, { recursive: true })
  if (made !== undefined) await chmod(folder, 0o755)
}

async function grants(path: string, user: ServerUser, bit: number): Promise<boolean> {
  const { uid, gid, mode } = await stat(path)
  const shift = uid === user.uid ? 6 : gid === user.gid ? 3 : 0
  return ((mode >> shift) & bit) !== 0
}

function passwdUsers(): ServerUser[] {
  return readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .filter((fields) => fields.length >= 4)
    .map(([name = '', , uid, gid]) => ({ name, uid: Number(uid) >>> 0, gid: Number(gid) >>> 0 }))
}
