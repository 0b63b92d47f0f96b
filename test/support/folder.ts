import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { chmod, mkdtemp } from 'node:fs/promises'
import { freemem, tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/** The in-memory file system of Linux, and how much of it and of the memory must be free for a run. */
const MEMORY = '/dev/shm'
const FREE_BYTES_MIN = 8 * 1024 ** 3

/**
 * A temporary folder that other users can enter. Otherwise the database of root, which runs as another
 * user, would be created elsewhere and outlive the folder.
 */
export async function makeFolder(name: string, parent = tmpdir()): Promise<string> {
  const folder = await mkdtemp(join(parent, `inflow-${name}-`))
  await chmod(folder, 0o711)
  return folder
}

/** A folder that is removed when the test ends, and that other users may enter. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'inflow-cli-'))
  chmodSync(folder, 0o755)
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/**
 * The parent of a run's folder: `TMPDIR` if it is set, or else the memory if enough is free, or else the temporary folder of
 * the system. In memory, creating the database of a test takes a twentieth of the CPU time.
 */
export function parentOfRun(): string {
  if (process.env['TMPDIR'] || freemem() < FREE_BYTES_MIN) return tmpdir()
  const probe = join(MEMORY, `inflow-probe-${process.pid}`)
  try {
    const { bavail, bsize } = statfsSync(MEMORY)
    writeFileSync(probe, '#!/bin/sh\n', { mode: 0o700 })
    // Containers often forbid programs there.
    const runs = spawnSync(probe).status === 0
    return runs && bavail * bsize >= FREE_BYTES_MIN ? MEMORY : tmpdir()
  } catch {
    return tmpdir()
  } finally {
    rmSync(probe, { force: true })
  }
}
