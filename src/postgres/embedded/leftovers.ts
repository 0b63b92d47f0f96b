import { randomBytes } from 'node:crypto'
import { readdir, readlink, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { isLive, liveProcess } from './process.ts'

/** The folder of root's clusters when PostgreSQL's user may not enter the requested folder. */
export const FALLBACK_FOLDER = '/var/lib/inflow'

/** A name for a temporary file or folder, which is useless once this process has ended. */
export function temporaryName(folder: string): string {
  const startedAt = liveProcess(process.pid)?.startedAt ?? 0
  return `${folder}.new-${process.pid}-${startedAt}-${randomBytes(4).toString('hex')}`
}

/** Removes the temporary files of killed starts beside the folder, and the targets of their links. */
export async function removeLeftovers(folder: string, log: (line: string) => void): Promise<void> {
  const prefix = `${basename(folder)}.new-`
  for (const name of await readdir(dirname(folder))) {
    if (!name.startsWith(prefix)) continue
    const [pid, startedAt] = name.slice(prefix.length).split('-').map(Number)
    if (isLive({ pid: pid ?? 0, startedAt: startedAt ?? 0 })) continue
    // Leftovers must not prevent a start.
    await removeEntry(join(dirname(folder), name), folder).catch((error: unknown) =>
      log(`${error}`),
    )
  }
}

/** Removes a link's cluster too, unless `folder` links to it. */
export async function removeEntry(temporary: string, folder: string): Promise<void> {
  const target = await readlink(temporary).catch(() => undefined)
  if (target !== undefined && target !== (await readlink(folder).catch(() => undefined))) {
    const work = dirname(target)
    if (dirname(work) === FALLBACK_FOLDER) await removeAll(work)
  }
  await removeAll(temporary)
}

/** Retries: an initdb that outlived its parent may add files meanwhile. */
async function removeAll(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 20, retryDelay: 20 })
}
