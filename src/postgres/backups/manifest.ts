import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BackupError } from './backup.ts'

/** A file of a backup. */
export interface ManifestFile {
  /** Relative to the data folder. */
  readonly path: string
  readonly bytes: number
  readonly modifiedAt: Date
  /** SHA-256, hexadecimal. */
  readonly checksum: string
}

/** The log that a restore must replay, so that the copy is consistent. */
export interface WalRange {
  readonly timeline: number
  readonly start: string
  readonly end: string
}

export const MANIFEST = 'backup_manifest'

/**
 * Writes a manifest in PostgreSQL's own format, which `pg_verifybackup` reads. Its last line is the checksum
 * of those before it. See "Backup Manifest Format" in PostgreSQL's documentation.
 */
export function manifestText(files: readonly ManifestFile[], range: WalRange): string {
  const lines = files.map(({ path, bytes, modifiedAt, checksum }) =>
    JSON.stringify({
      Path: path,
      Size: bytes,
      'Last-Modified': `${modifiedAt.toISOString().slice(0, 19).replace('T', ' ')} GMT`,
      'Checksum-Algorithm': 'SHA256',
      Checksum: checksum,
    }),
  )
  const { timeline, start, end } = range
  const wal = { Timeline: timeline, 'Start-LSN': start, 'End-LSN': end }
  const text =
    `{ "PostgreSQL-Backup-Manifest-Version": 1,\n"Files": [\n${lines.join(',\n')}\n],\n` +
    `"WAL-Ranges": [\n${JSON.stringify(wal)}\n],\n`
  return `${text}"Manifest-Checksum": "${sha256(text)}"}\n`
}

/** @throws BackupError if there is no manifest, or it was changed */
export async function readManifest(folder: string): Promise<readonly ManifestFile[]> {
  const file = join(folder, MANIFEST)
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new BackupError(`cannot read ${file}`, { cause })
  })
  const at = text.lastIndexOf('"Manifest-Checksum"')
  const [, checksum] = /^"Manifest-Checksum": "([0-9a-f]{64})"\}\n$/.exec(text.slice(at)) ?? []
  if (checksum === undefined || sha256(text.slice(0, at)) !== checksum) {
    throw new BackupError(`${file} is damaged: its checksum does not match`)
  }
  const manifest: { Files: readonly Record<string, string | number>[] } = JSON.parse(text)
  return manifest.Files.map((each) => ({
    path: String(each['Path']),
    bytes: Number(each['Size']),
    modifiedAt: new Date(String(each['Last-Modified'])),
    checksum: String(each['Checksum']),
  }))
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
