import { constants } from 'node:fs'
import { lchown, mkdir, open, readFile, rename, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'

export async function readIfPresent(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/**
 * Writes a file that only its owner can read. The rename makes the write atomic: after a crash, the old
 * or the new file exists. The file is on disk when this returns, because encrypted data are lost without their key.
 */
export async function writePrivate(folder: string, name: string, text: string): Promise<void> {
  await makeFolder(folder)
  const file = join(folder, name)
  const { O_WRONLY, O_CREAT, O_TRUNC } = constants
  await write(`${file}.new`, O_WRONLY | O_CREAT | O_TRUNC, text)
  await rename(`${file}.new`, file)
  await syncFolder(folder)
}

/** Syncs a folder, so that its entries survive a power failure. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Creates a file that only its owner can read, and syncs it to disk. @throws EEXIST */
export function createPrivate(file: string, text: string): Promise<void> {
  return write(file, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, text)
}

/** Creates a folder and its parents. */
export async function makeFolder(folder: string): Promise<void> {
  const absolute = resolve(folder)
  const made = await mkdir(absolute, { recursive: true })
  const owner = made === undefined ? undefined : await ownerOf(dirname(made))
  if (made === undefined || owner === undefined) return
  for (let path = absolute; path.length >= made.length; path = dirname(path)) {
    await lchown(path, owner.uid, owner.gid)
  }
}

/**
 * Opens a file, and creates it if the flags say so. In the folder of another user, root makes that user the owner of a new
 * file, because the user could not start the service otherwise, and follows no links.
 *
 * @param flags the flags of open(2)
 */
export async function openFor(file: string, flags: number) {
  const owner = await ownerOf(dirname(file))
  const handle = await open(file, owner ? flags | constants.O_NOFOLLOW : flags, 0o600)
  if (owner) await handle.chown(owner.uid, owner.gid)
  return handle
}

async function write(file: string, flags: number, text: string): Promise<void> {
  const handle = await openFor(file, flags)
  try {
    await handle.chmod(0o600)
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** The owner of a folder, if this process is root and the owner is not. */
async function ownerOf(folder: string) {
  if (process.getuid?.() !== 0) return undefined
  const { uid, gid } = await stat(folder)
  return uid === 0 ? undefined : { uid, gid }
}
