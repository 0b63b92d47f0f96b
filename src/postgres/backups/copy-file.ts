import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { forEachConcurrently } from '../../core/for-each-concurrently.ts'
import { syncFolder } from '../../core/private-file.ts'

export interface CopiedFile {
  readonly bytes: number
  readonly modifiedAt: Date
  /** SHA-256, hexadecimal. */
  readonly checksum: string
}

/** The threads that Node has for files. */
const SYNCS_MAX = 4

const CHUNK_BYTES = 1024 * 1024

/**
 * Copies a file into a new one that only this user may read. `syncFiles` writes many copies to disk at once.
 *
 * @param onBytes called with the bytes of each chunk
 * @throws ENOENT if the file does not exist, EEXIST if the copy does
 */
export async function copyFile(
  from: string,
  to: string,
  onBytes: (bytes: number) => void,
): Promise<CopiedFile> {
  // Root must not follow a link that the owner of the folder has placed.
  const source = await open(from, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    const target = await open(to, 'wx', 0o600)
    try {
      const { mtime: modifiedAt } = await source.stat()
      const copied = await copyContent(source, target, onBytes)
      return { ...copied, modifiedAt }
    } finally {
      await target.close()
    }
  } finally {
    await source.close()
  }
}

async function copyContent(
  source: FileHandle,
  target: FileHandle,
  onBytes: (bytes: number) => void,
): Promise<Pick<CopiedFile, 'bytes' | 'checksum'>> {
  const hash = createHash('sha256')
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES)
  let bytes = 0
  for (;;) {
    const { bytesRead } = await source.read(buffer, 0, buffer.length)
    if (bytesRead === 0) return { bytes, checksum: hash.digest('hex') }
    const chunk = buffer.subarray(0, bytesRead)
    hash.update(chunk)
    await target.write(chunk)
    bytes += bytesRead
    onBytes(bytesRead)
  }
}

/** Writes files to disk. After all were written: most of them are there by then, so this takes little. */
export function syncFiles(paths: readonly string[]): Promise<void> {
  return forEachConcurrently(paths, SYNCS_MAX, syncFolder)
}

/** Writes a new file that only this user may read to disk. */
export async function writeNew(to: string, content: string | Buffer): Promise<CopiedFile> {
  const target = await open(to, 'wx', 0o600)
  try {
    await target.writeFile(content)
    await target.sync()
    const { size: bytes, mtime: modifiedAt } = await target.stat()
    return { bytes, modifiedAt, checksum: createHash('sha256').update(content).digest('hex') }
  } finally {
    await target.close()
  }
}
