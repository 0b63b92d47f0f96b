import { spawnSync } from 'node:child_process'
import { rmSync, statfsSync, writeFileSync } from 'node:fs'
import { chmod, mkdtemp } from 'node:fs/promises'
import { freemem, tmpdir } from 'node:os'
import { join } from 'node:path'

/** Linux's file system in memory, and how much of it and of the memory must be free for a run. */
const MEMORY = '/dev/shm'
const FREE_BYTES_MIN = 8 * 1024 ** 3

/**
 * A temporary folder that other users may enter. Otherwise root's database, which runs as another
 * user, would be created elsewhere and outlive the folder.
 */
export async function makeFolder(name: string, parent = tmpdir()): Promise<string> {
  const folder = await mkdtemp(join(parent, `inflow-${name}-`))
  await chmod(folder, 0o711)
  return folder
}

/**
 * Where the folder of a run belongs: in `TMPDIR` if that is set, else in memory if there is plenty, else in the
 * system's folder. In memory a test's database is created in a twentieth of the CPU time.
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
