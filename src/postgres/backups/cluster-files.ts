import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { BackupError } from './backup.ts'

/** What is in a data folder; paths are relative to it. */
interface ClusterFiles {
  /** Those above come before those in them. */
  readonly folders: readonly string[]
  readonly files: readonly { readonly path: string; readonly bytes: number }[]
}

/**
 * Folders whose content a start makes anew, or that belongs to this server alone. See "Backing Up The Data
 * Directory" in PostgreSQL's documentation. `pg_wal` is copied at the end, from the segments that are needed.
 */
const EMPTIED = new Set([
  ...['pg_wal', 'pg_replslot', 'pg_dynshmem', 'pg_notify', 'pg_serial', 'pg_snapshots'],
  ...['pg_stat_tmp', 'pg_subtrans'],
])

/** Files that are of a running server, or of an earlier backup or restore. */
const LEFT_OUT =
  /^(postmaster\.(pid|opts)|.*\.tmp|backup_label.*|tablespace_map.*|backup_manifest|(recovery|standby)\.signal)$/

/** At any depth. */
const TEMPORARY = /^(pgsql_tmp|pg_internal\.init)/

/** The last that is copied. */
export const CONTROL_FILE = 'global/pg_control'

/**
 * Lists what a backup copies. The server runs meanwhile, so files may vanish and grow.
 *
 * @throws BackupError if data is outside of the folder
 */
export async function listClusterFiles(cluster: string): Promise<ClusterFiles> {
  const folders: string[] = []
  const files: { path: string; bytes: number }[] = []
  const visit = async (folder: string): Promise<void> => {
    const entries = await readdir(join(cluster, folder), { withFileTypes: true }).catch(unlessGone)
    for (const entry of entries ?? []) {
      const path = folder === '' ? entry.name : `${folder}/${entry.name}`
      if (TEMPORARY.test(entry.name) || (folder === '' && LEFT_OUT.test(entry.name))) continue
      if (entry.isSymbolicLink()) {
        throw new BackupError(`${join(cluster, path)} is a link: tablespaces cannot be backed up`)
      }
      if (entry.isDirectory()) {
        folders.push(path)
        if (!EMPTIED.has(path)) await visit(path)
      } else if (path !== CONTROL_FILE) {
        const found = await lstat(join(cluster, path)).catch(unlessGone)
        if (found?.isFile()) files.push({ path, bytes: found.size })
      }
    }
  }
  await visit('')
  return { folders, files }
}

/** Undefined in place of the error that a file or folder was removed meanwhile. */
export function unlessGone(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
