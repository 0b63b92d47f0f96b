import { readFileSync, statSync } from 'node:fs'
import { chmod, mkdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** The unprivileged user that runs PostgreSQL when this process runs as root. */
export interface ServerUser {
  readonly name: string
  readonly uid: number
  readonly gid: number
}

/** The names to try, in this order. initdb looks up its user, so the user needs an entry in /etc/passwd. */
const NAMES = ['postgres', 'nobody'] as const

const SEARCH_BIT = 0o1
const READ_BIT = 0o4

/**
 * PostgreSQL refuses to run as root, so root runs it as an unprivileged user: the owner of an existing cluster; otherwise the
 * owner of its parent folder, who may also start Inflow; otherwise the first existing user of NAMES.
 *
 * @returns undefined if this process does not run as root
 */
export function serverUser(folder: string): ServerUser | undefined {
  if (process.getuid?.() !== 0) return undefined
  const users = passwdUsers()
  const version = statSync(join(folder, 'PG_VERSION'), { throwIfNoEntry: false })
  if (version !== undefined && version.uid !== 0) {
    const { uid, gid } = version
    return users.find((user) => user.uid === uid) ?? { name: `user ${uid}`, uid, gid }
  }
  const above = statSync(dirname(folder), { throwIfNoEntry: false })
  const owner = above && users.find(({ uid }) => uid !== 0 && uid === above.uid)
  if (owner !== undefined) return owner
  for (const name of NAMES) {
    const user = users.find((candidate) => candidate.name === name)
    if (user !== undefined) return user
  }
  throw new Error(
    `PostgreSQL does not run as root, and /etc/passwd has no user ${NAMES.join(' or ')}; ` +
      'start Inflow as an ordinary user, or set DATABASE_URL to a PostgreSQL of your own',
  )
}

/** Options of child_process that make the child run as `user`, in a working directory that the user can enter. */
export function spawnAs(user: ServerUser | undefined) {
  return {
    // The messages of the child are parsed, so they must be in English. It needs nothing else from the environment.
    env: { LC_ALL: 'C' },
    cwd: '/',
    // Node accepts only signed ids here; on macOS the id of nobody is -2.
    ...(user && { uid: user.uid | 0, gid: user.gid | 0 }),
  }
}

/**
 * Returns the outermost of `folder` (a real path) and its parents that `user` cannot enter; undefined if all
 * are accessible. Only mode bits are checked: ignoring an access control list that grants more only costs a
 * needless copy.
 */
export async function closedFolder(folder: string, user: ServerUser): Promise<string | undefined> {
  const parent = dirname(folder)
  const above = parent === folder ? undefined : await closedFolder(parent, user)
  if (above !== undefined) return above
  return (await grants(folder, user, SEARCH_BIT)) ? undefined : folder
}

/** Whether the mode bits let `user` read the file; closedFolder checks the folders above it. */
export function mayRead(file: string, user: ServerUser): Promise<boolean> {
  return grants(file, user, READ_BIT)
}

/** Creates a folder with mode 755 regardless of the umask; leaves an existing one unchanged. */
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
