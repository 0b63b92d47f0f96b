import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { syncFolder } from '../../core/private-file.ts'
import { isLive, liveProcess } from '../embedded/process.ts'
import { type Backup, listBackups } from './backup.ts'

/** The beginning of the names of folders that are not complete; what begins so is no backup. */
const PARTIAL = '.partial-'

/** A name for a folder that is useless once this process has ended. */
export function partialName(): string {
  const startedAt = liveProcess(process.pid)?.startedAt ?? 0
  return `${PARTIAL}${process.pid}-${startedAt}-${randomBytes(4).toString('hex')}`
}

/**
 * Makes a folder that an end of the process removes, also by a signal that `exitOnSignals` handles.
 *
 * @returns removes it, unless it was renamed
 */
export async function makePartial(path: string, mode: number): Promise<() => Promise<void>> {
  // Copies in progress may add files meanwhile.
  const options = { recursive: true, force: true, maxRetries: 20, retryDelay: 20 }
  const atExit = () => rmSync(path, options)
  process.once('exit', atExit)
  await mkdir(path, { mode })
  return async () => {
    await rm(path, options)
    process.off('exit', atExit)
  }
}

/** Removes what killed commands left. */
export async function removePartial(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!name.startsWith(PARTIAL)) continue
    const [pid = 0, startedAt = 0] = name.slice(PARTIAL.length).split('-').map(Number)
    if (!isLive({ pid, startedAt })) await rm(join(folder, name), { recursive: true, force: true })
  }
}

/**
 * Removes the oldest backups of a folder, and keeps some.
 *
 * @returns the removed ones
 */
export async function keepNewest(folder: string, count: number): Promise<readonly Backup[]> {
  const backups = await listBackups(folder)
  const removed = backups.slice(0, Math.max(0, backups.length - count))
  for (const { path } of removed) {
    // Under another name first: what is removed in part must not be taken for a backup.
    const gone = join(folder, `${partialName()}-${basename(path)}`)
    await rename(path, gone)
    await syncFolder(folder)
    await rm(gone, { recursive: true })
  }
  return removed
}
