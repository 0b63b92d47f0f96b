import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'

/** A complete backup of an embedded database: a folder in the folder of backups. */
export interface Backup {
  readonly path: string
  /** When the copy began; what was committed before is in it. */
  readonly startedAt: Date
  /** When it was complete: a restore brings back what was committed until then. */
  readonly endedAt: Date
  /** Of the whole folder. */
  readonly bytes: number
  /** PostgreSQL's version, "18.4". */
  readonly serverVersion: string
  /** Whether the folder `keys` has the master keys. */
  readonly withKeys: boolean
}

/** An error that the operator can act on; the message is one line. */
export class BackupError extends Error {
  override readonly name = 'BackupError'
}

/** The parts of a backup. */
export const PARTS = {
  /** The copy of the data folder, with its manifest. */
  data: 'data',
  /** What this file states is the last that is written. */
  description: 'backup.json',
  /** Of the database's superuser. */
  password: 'postgres.password',
  /** The files of the master keys, if they were asked for. */
  keys: 'keys',
} as const

const FORMAT = 1

/** "20261123T080429Z": the names sort by time. */
export function backupName(startedAt: Date): string {
  return startedAt.toISOString().replace(/[-:]|\.\d+/g, '')
}

const NAME = /^\d{8}T\d{6}Z$/

/** The backups in a folder, the oldest first; none if there is no such folder. */
export async function listBackups(folder: string): Promise<readonly Backup[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  const found = names.filter((name) => NAME.test(name)).sort()
  return Promise.all(found.map((name) => readBackup(join(folder, name))))
}

/** The time of the newest backup, by the names alone; undefined if there is none. */
export async function newestBackupMs(folder: string): Promise<number | undefined> {
  const names = await readdir(folder).catch(() => [])
  const newest = names
    .filter((name) => NAME.test(name))
    .sort()
    .at(-1)
  if (newest === undefined) return undefined
  return Date.parse(
    newest.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'),
  )
}

/** @param path a backup, or a folder of backups, of which the newest is taken */
export async function findBackup(path: string): Promise<Backup> {
  const described = await stat(join(path, PARTS.description)).catch(() => undefined)
  if (described !== undefined) return readBackup(path)
  const newest = (await listBackups(path)).at(-1)
  if (newest === undefined) throw new BackupError(`there is no backup in ${path}`)
  return newest
}

export function describe({ path: _, ...backup }: Backup): string {
  return `${JSON.stringify({ format: FORMAT, ...backup }, null, 2)}\n`
}

/** @throws BackupError */
async function readBackup(path: string): Promise<Backup> {
  const file = join(path, PARTS.description)
  try {
    const { format, startedAt, endedAt, bytes, serverVersion, withKeys } = JSON.parse(
      await readFile(file, 'utf8'),
    )
    if (format !== FORMAT) throw new Error(`its format is ${format}, not ${FORMAT}`)
    const [started, ended] = [new Date(startedAt), new Date(endedAt)]
    if (Number.isNaN(started.getTime() + ended.getTime())) throw new Error('it has no times')
    return {
      ...{ path, startedAt: started, endedAt: ended, bytes: Number(bytes) },
      ...{ serverVersion: String(serverVersion), withKeys: withKeys === true },
    }
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new BackupError(`cannot read ${file}: ${why}`, { cause })
  }
}
