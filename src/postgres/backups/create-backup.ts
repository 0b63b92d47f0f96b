import { lchown, lstat, mkdir, readdir, readFile, rename, stat, statfs } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { forEachConcurrently } from '../../core/for-each-concurrently.ts'
import { makeFolder, syncFolder } from '../../core/private-file.ts'
import { type Backup, BackupError, backupName, describe, PARTS } from './backup.ts'
import { beginBackup } from './backup-session.ts'
import { CONTROL_FILE, listClusterFiles, unlessGone } from './cluster-files.ts'
import { type CopiedFile, copyFile, syncFiles, writeNew } from './copy-file.ts'
import { MANIFEST, type ManifestFile, manifestText } from './manifest.ts'
import { makePartial, partialName, removePartial } from './partial.ts'

interface CreateOptions {
  /** Of the running embedded database, as its superuser. */
  readonly url: string
  /** The folder of backups. Created if absent. */
  readonly folder: string
  readonly passwordFile: string
  /** Files of master keys that the backup gets too; usually none. */
  readonly keyFiles: readonly string[]
  readonly now: () => Date
  /** @param bytes copied so far, of about `total` */
  readonly onProgress: (bytes: number, total: number) => void
}

/** Enough that one copy writes while the other reads, and little beside the service's own work. */
const COPIES_MAX = 2

/** A backup must leave the database and others on its disk some room. */
const RESERVE_BYTES = 256 * 1024 * 1024

/**
 * Backs up an embedded database while it runs: a physical copy with the log that makes it consistent. The
 * backup appears complete, checked and on disk, or not at all.
 *
 * @throws BackupError
 */
export async function createBackup(options: CreateOptions): Promise<Backup> {
  const { folder, now } = options
  await makeFolder(folder)
  await removePartial(folder)
  const startedAt = now()
  const path = join(folder, backupName(startedAt))
  if (await exists(path)) throw new BackupError(`${path} exists already`)
  const partial = join(folder, partialName())
  const discard = await makePartial(partial, 0o700)
  try {
    const made = await copyAll(options, partial)
    const backup = {
      path,
      startedAt,
      endedAt: now(),
      ...made,
      withKeys: options.keyFiles.length > 0,
    }
    await writeNew(join(partial, PARTS.description), describe(backup))
    await syncFolder(partial)
    await giveToOwnerOf(folder, partial)
    // Fails if there is a folder with this name that is not empty.
    await rename(partial, path)
    await syncFolder(folder)
    return backup
  } finally {
    await discard()
  }
}

async function copyAll(
  { url, passwordFile, keyFiles, onProgress }: CreateOptions,
  partial: string,
): Promise<Pick<Backup, 'bytes' | 'serverVersion'>> {
  const session = await beginBackup(url)
  try {
    const { cluster, serverVersion } = session
    const data = join(partial, PARTS.data)
    const listed = await listClusterFiles(cluster)
    const total = listed.files.reduce((sum, { bytes }) => sum + bytes, 0)
    await requireSpace(partial, total)
    await makeFolders(data, listed.folders)
    const copied: ManifestFile[] = []
    let bytes = 0
    const copy = async (path: string): Promise<void> => {
      const file = await copyFile(join(cluster, path), join(data, path), (count) => {
        bytes += count
        onProgress(bytes, total)
      }).catch(unlessGone)
      if (file !== undefined) copied.push({ path, ...file })
    }
    await forEachConcurrently(listed.files, COPIES_MAX, ({ path }) => copy(path))
    copied.push({ path: CONTROL_FILE, ...(await copyControl(cluster, data)) })
    const { label, timeline, start, end, segments } = await session.stop()
    copied.push({ path: 'backup_label', ...(await writeNew(join(data, 'backup_label'), label)) })
    for (const path of await walFiles(cluster, segments)) await copy(path)
    const lacking = segments.filter((name) => !copied.some(({ path }) => path === `pg_wal/${name}`))
    if (lacking.length > 0) throw new BackupError(`the log lacks ${lacking[0]}: repeat the backup`)
    await writeNew(join(data, MANIFEST), manifestText(copied, { timeline, start, end }))
    const made = [...copied.map(({ path }) => path), ...listed.folders, '.']
    await syncFiles(made.map((path) => join(data, path)))
    await writeNew(join(partial, PARTS.password), await readFile(passwordFile))
    if (keyFiles.length > 0) await copyKeys(keyFiles, join(partial, PARTS.keys))
    return { bytes: copied.reduce((sum, file) => sum + file.bytes, 0), serverVersion }
  } finally {
    await session.close()
  }
}

async function requireSpace(folder: string, bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(folder)
  if (bavail * bsize >= bytes + RESERVE_BYTES) return
  const mib = (count: number) => `${Math.ceil(count / 1024 ** 2)} MiB`
  throw new BackupError(
    `the disk of ${dirname(folder)} has ${mib(bavail * bsize)} free; a backup needs ` +
      `${mib(bytes + RESERVE_BYTES)}`,
  )
}

async function makeFolders(data: string, folders: readonly string[]): Promise<void> {
  await mkdir(data, { mode: 0o700 })
  for (const folder of folders) await mkdir(join(data, folder), { mode: 0o700 })
}

/** The server may write this file while it is read: two equal reads in a row are of one state. */
async function copyControl(cluster: string, data: string): Promise<CopiedFile> {
  let before = await readFile(join(cluster, CONTROL_FILE))
  for (;;) {
    const content = await readFile(join(cluster, CONTROL_FILE))
    if (content.equals(before)) return writeNew(join(data, CONTROL_FILE), content)
    before = content
  }
}

/** The segments, and the history of the timelines, by which a restore finds a number for its own. */
async function walFiles(cluster: string, segments: readonly string[]): Promise<string[]> {
  const names = await readdir(join(cluster, 'pg_wal'))
  const histories = names.filter((name) => name.endsWith('.history'))
  return [...histories, ...segments].map((name) => `pg_wal/${name}`)
}

async function copyKeys(files: readonly string[], folder: string): Promise<void> {
  await mkdir(folder, { mode: 0o700 })
  for (const file of files) await writeNew(join(folder, basename(file)), await readFile(file))
  await syncFolder(folder)
}

/** What root creates in a user's folder belongs to that user. The top comes last: until then it is closed. */
async function giveToOwnerOf(folder: string, made: string): Promise<void> {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = await stat(folder)
  if (uid === 0) return
  const names = await readdir(made, { recursive: true })
  for (const path of [...names.map((name) => join(made, name)), made]) await lchown(path, uid, gid)
}

async function exists(path: string): Promise<boolean> {
  return (await lstat(path).catch(unlessGone)) !== undefined
}
