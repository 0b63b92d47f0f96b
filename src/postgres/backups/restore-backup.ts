import { lstat, mkdir, readdir, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { forEachConcurrently } from '../../core/for-each-concurrently.ts'
import { makeFolder, syncFolder } from '../../core/private-file.ts'
import { passwordFile } from '../embedded/cluster.ts'
import { type EmbeddedPostgres, startEmbedded } from '../embedded/embedded.ts'
import { removeLeftovers, temporaryName } from '../embedded/leftovers.ts'
import { type Backup, BackupError, PARTS } from './backup.ts'
import { unlessGone } from './cluster-files.ts'
import { copyFile, syncFiles, writeNew } from './copy-file.ts'
import { MANIFEST, readManifest } from './manifest.ts'

interface CopyOptions {
  readonly backup: Backup
  /** @param bytes copied so far, of `total` */
  readonly onProgress: (bytes: number, total: number) => void
  /** Called with lines for the operator. */
  readonly log: (line: string) => void
}

interface RestoreOptions extends CopyOptions {
  /** The new data folder of the service. It may exist, with keys, but has no database. */
  readonly dataDir: string
}

const COPIES_MAX = 2

/**
 * Settings of the server that recovers a copy. There is no archive to read from: all of the log that is
 * needed is in `pg_wal`. It is ready when the recovery has ended, as no reader gets in before. The memory is
 * that of a guest.
 */
const RECOVERY = {
  restore_command: 'exit 1',
  hot_standby: 'off',
  shared_buffers: '64MB',
  max_wal_size: '1GB',
}

/**
 * Restores a backup into a new data folder. The database is there, recovered and on disk, or not at all.
 *
 * @throws BackupError if there is a database already, or the backup is damaged
 */
export async function restoreBackup(options: RestoreOptions): Promise<void> {
  const { backup, dataDir } = options
  await makeFolder(dataDir)
  const folder = join(dataDir, 'postgres')
  if ((await lstat(folder).catch(unlessGone)) !== undefined) {
    throw new BackupError(`${folder} exists: restore into a new data folder`)
  }
  await removeLeftovers(folder, options.log)
  const temporary = temporaryName(folder)
  try {
    const server = await openCopy({ ...options, folder: temporary })
    await server.stop()
    if (backup.withKeys) await restoreKeys(join(backup.path, PARTS.keys), dataDir)
    await rename(passwordFile(temporary), passwordFile(folder))
    await rename(temporary, folder)
    await syncFolder(dataDir)
  } finally {
    for (const path of [temporary, passwordFile(temporary), `${temporary}.log`]) {
      await rm(path, { recursive: true, force: true })
    }
  }
}

/**
 * Copies a backup into a folder that does not exist, checks every checksum, and starts a server on it, which
 * replays the log and begins a timeline of its own: so that the service finds out that it was restored.
 */
export async function openCopy(
  options: CopyOptions & { readonly folder: string },
): Promise<EmbeddedPostgres> {
  const { backup, folder, log } = options
  await copyData(options)
  const password = join(backup.path, PARTS.password)
  await copyFile(password, passwordFile(folder), () => undefined)
  await syncFiles([passwordFile(folder)])
  await writeNew(join(folder, 'recovery.signal'), '')
  await syncFolder(folder)
  await syncFolder(dirname(folder))
  return startEmbedded({ folder, settings: RECOVERY, log })
}

async function copyData({
  backup,
  folder,
  onProgress,
}: CopyOptions & { readonly folder: string }): Promise<void> {
  const data = join(backup.path, PARTS.data)
  const files = await readManifest(data)
  const entries = await readdir(data, { recursive: true, withFileTypes: true })
  const pathOf = (entry: (typeof entries)[number]) =>
    join(entry.parentPath, entry.name).slice(data.length + 1)
  const known = new Set([MANIFEST, ...files.map(({ path }) => path)])
  const other = entries.find((entry) => !entry.isDirectory() && !known.has(pathOf(entry)))
  if (other !== undefined) throw damaged(join(data, pathOf(other)), 'the manifest does not list it')
  await mkdir(folder, { mode: 0o700 })
  const folders = entries.filter((entry) => entry.isDirectory()).map(pathOf)
  for (const path of folders) await mkdir(join(folder, path), { mode: 0o700 })
  const total = files.reduce((sum, { bytes }) => sum + bytes, 0)
  let copied = 0
  await forEachConcurrently(files, COPIES_MAX, async ({ path, bytes, checksum }) => {
    const from = join(data, path)
    const copy = await copyFile(from, join(folder, path), (count) => {
      copied += count
      onProgress(copied, total)
    }).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' && error.path === from) throw damaged(from, 'it is missing')
      throw error
    })
    if (copy.bytes !== bytes) throw damaged(from, `it has ${copy.bytes} bytes, not ${bytes}`)
    if (copy.checksum !== checksum) throw damaged(from, 'its checksum does not match')
  })
  const made = [...files.map(({ path }) => path), ...folders]
  await syncFiles(made.map((path) => join(folder, path)))
}

/** Keys that are in the data folder already are not replaced. */
async function restoreKeys(from: string, dataDir: string): Promise<void> {
  for (const name of await readdir(from)) {
    await writeNew(join(dataDir, name), await readFile(join(from, name))).catch(
      (error: NodeJS.ErrnoException) => {
        if (error.code !== 'EEXIST') throw error
      },
    )
  }
}

function damaged(file: string, why: string): BackupError {
  return new BackupError(`the backup is damaged: ${file}: ${why}`)
}
