import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, expect, onTestFinished, vi } from 'vitest'
import { type EmbeddedOptions, startEmbedded } from '../../src/postgres/embedded/embedded.ts'
import { liveProcess } from '../../src/postgres/embedded/rival.ts'
import type { ServerUser } from '../../src/postgres/embedded/server-user.ts'
import { WAIT_LIMIT_MS } from '../support/wait-for.ts'

export const isRoot = process.getuid?.() === 0
const MODULE = new URL('../../src/postgres/embedded/embedded.ts', import.meta.url).href

/** A path in a temporary folder that PostgreSQL's user can enter, or with 0o700 cannot; removed by `atEnd`. */
export function scratch(mode = 0o755, atEnd: (end: () => void) => void = onTestFinished): string {
  const parent = mkdtempSync(join(tmpdir(), 'inflow-embedded-'))
  chmodSync(parent, mode)
  const folder = join(parent, 'postgres')
  atEnd(() => {
    const cluster = linkTarget(folder)
    if (cluster?.startsWith('/var/lib/inflow/')) rmSync(dirname(cluster), { recursive: true })
    rmSync(parent, { recursive: true })
  })
  return folder
}

/** A stopped cluster, which the tests of a file start in turn. */
export function useCluster(): { readonly folder: string } {
  let folder: string
  let remove: () => void
  beforeAll(async () => {
    folder = scratch(0o755, (end) => {
      remove = end
    })
    await (await startEmbedded({ folder })).stop()
  })
  afterAll(() => remove?.())
  return {
    get folder() {
      return folder
    },
  }
}

export function linkTarget(path: string): string | undefined {
  try {
    return readlinkSync(path)
  } catch {
    return undefined
  }
}

export async function start(options: EmbeddedOptions) {
  const server = await startEmbedded(options)
  onTestFinished(() => server.stop())
  return server
}

export function postmasterId(folder: string): number {
  return Number.parseInt(readFileSync(join(folder, 'postmaster.pid'), 'utf8'), 10)
}

export async function untilGone(pid: number): Promise<void> {
  await vi.waitFor(() => expect(liveProcess(pid)).toBeUndefined(), {
    timeout: WAIT_LIMIT_MS,
    interval: 20,
  })
}

/** The output of a service in another process: one line of JSON when it has started or failed. */
interface Said {
  readonly url: string
  readonly error?: string
}

export interface Service {
  readonly child: ChildProcess
  readonly said: Promise<Said>
  kill(): Promise<void>
}

/** Runs the code `also` in another process after its server, the variable `server`, has started. */
export function service(
  folder: string,
  { also = '', user }: { also?: string; user?: ServerUser } = {},
) {
  const script = `
    const { startEmbedded } = await import(${JSON.stringify(MODULE)})
    const say = (what) => process.stdout.write(JSON.stringify(what) + '\\n')
    const hold = setInterval(() => {}, 60_000)
    try {
      const server = await startEmbedded({ folder: ${JSON.stringify(folder)} })
      ${also}
      say({ url: server.url, uid: process.getuid() })
    } catch (error) {
      say({ error: error.message })
      clearInterval(hold)
    }`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    cwd: '/',
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env['PATH'] },
    ...(user && { uid: user.uid, gid: user.gid }),
  })
  const ended = once(child, 'exit')
  const kill = async () => {
    child.kill('SIGKILL')
    await ended
  }
  onTestFinished(async () => {
    await kill()
    const pid = existsSync(join(folder, 'postmaster.pid')) ? postmasterId(folder) : undefined
    if (pid === undefined || liveProcess(pid) === undefined) return
    process.kill(pid, 'SIGINT')
    await untilGone(pid)
  })
  const said = once(createInterface(child.stdout), 'line').then(([line]): Said => JSON.parse(line))
  return { child, said, kill } satisfies Service
}
