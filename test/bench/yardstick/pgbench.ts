import { execFile } from 'node:child_process'
import { access, readdir, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import type { Contender } from '../alternate-rounds.ts'

const DEBIAN = '/usr/lib/postgresql'
const CLIENTS = 32
const GRACE_MS = 30_000

/** The path of the newest pgbench; undefined if it is not installed. */
export async function findPgbench(): Promise<string | undefined> {
  const versions = await readdir(DEBIAN).catch(() => [])
  const newestFirst = versions.toSorted((a, b) => Number(b) - Number(a))
  const folders = [
    ...newestFirst.map((version) => join(DEBIAN, version, 'bin')),
    ...(process.env['PATH'] ?? '').split(delimiter),
  ]
  for (const folder of folders) {
    const file = join(folder, 'pgbench')
    const found = await access(file).then(
      () => true,
      () => false,
    )
    if (found) return file
  }
  return undefined
}

interface PgbenchOptions {
  readonly file: string
  readonly databaseUrl: string
  readonly script: string
  /** A folder for the script. */
  readonly folder: string
}

/** PostgreSQL's own load generator, written in C: 32 clients with prepared statements. */
export async function pgbench(options: PgbenchOptions): Promise<Contender> {
  const path = join(options.folder, 'pgbench.sql')
  await writeFile(path, options.script)
  const { hostname, port, username, password, pathname } = new URL(options.databaseUrl)
  const settings = ['-n', '-M', 'prepared', '-c', `${CLIENTS}`, '-j', '2', '-f', path]
  const where = ['-h', hostname, '-p', port, '-U', username, pathname.slice(1)]
  return {
    name: `pgbench, ${CLIENTS} clients`,
    async measure(seconds) {
      const whole = Math.max(1, Math.round(seconds))
      const { stdout } = await promisify(execFile)(
        options.file,
        [...settings, '-T', `${whole}`, ...where],
        { env: { ...process.env, PGPASSWORD: password }, timeout: whole * 1000 + GRACE_MS },
      )
      const value = Number(/^tps = ([\d.]+)/m.exec(stdout)?.[1])
      const failed = Number(/^number of failed transactions: (\d+)/m.exec(stdout)?.[1] ?? 0)
      if (!(value > 0) || failed > 0) throw new Error(`pgbench: ${stdout}`)
      return { value }
    },
  }
}
