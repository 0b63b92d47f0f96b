import { chmod, mkdir, open, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

export async function readIfPresent(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/**
 * Writes a file that only its owner may read. The rename makes the write atomic: a crash leaves the old
 * or the new file. It is on disk when this returns, since data encrypted under a key must never
 * outlive the key.
 */
export async function writePrivate(folder: string, name: string, text: string): Promise<void> {
  await mkdir(folder, { recursive: true })
  const file = join(folder, name)
  await writeFile(`${file}.new`, text, { mode: 0o600, flush: true })
  await chmod(`${file}.new`, 0o600)
  await rename(`${file}.new`, file)
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
