import { spawn } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { toFigure } from './alternate-rounds.ts'
import type { Benchmark, Result } from './benchmark.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const READY_LIMIT_MS = 60_000
const STOP_LIMIT_MS = 15_000

/** The time from `npm start` until the service reports that it is ready. */
export const start: Benchmark = {
  name: 'start',
  slow: true,
  async measure(bench) {
    const fresh: number[] = []
    const existing: number[] = []
    for (let round = 0; round < bench.rounds; round++) {
      const dataDir = join(bench.folder, `start-${round}`)
      bench.onEnd(() => rm(dataDir, { recursive: true, force: true }))
      fresh.push(await secondsToReady(dataDir))
      existing.push(await secondsToReady(dataDir))
      bench.log(`  round ${round + 1}: fresh ${fresh.at(-1)} s, existing ${existing.at(-1)} s`)
    }
    return [
      toResult('npm start, existing data folder', existing, 1.5),
      toResult('npm start, fresh data folder', fresh, 4),
    ]
  },
}

function toResult(what: string, seconds: readonly number[], atMost: number): Result {
  const samples = seconds.map((value) => ({ value }))
  return {
    name: 'start',
    what,
    unit: 's',
    ours: toFigure({ name: 'Inflow' }, samples),
    yardstick: undefined,
    target: { atMost },
    notes: [],
  }
}

async function secondsToReady(dataDir: string): Promise<number> {
  const { DATABASE_URL: _, ...environment } = process.env
  const started = performance.now()
  // A process group of its own: npm and its shell do not forward every signal.
  const child = spawn('npm', ['start'], {
    cwd: ROOT,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...environment, DATA_DIR: dataDir, HTTP_PORT: '0', GRPC_PORT: '0' },
  })
  const gone = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const signal = (name: NodeJS.Signals) => {
    try {
      process.kill(-(child.pid as number), name)
    } catch {
      // All processes of the group have ended.
    }
  }
  let said = ''
  try {
    return await new Promise<number>((resolve, reject) => {
      const fail = (what: string) => reject(new Error(`npm start ${what}: ${said}`))
      const timer = setTimeout(() => fail('was not ready in time'), READY_LIMIT_MS)
      child.once('error', reject)
      child.once('exit', () => fail('ended'))
      const hear = (chunk: Buffer) => {
        said = (said + chunk).slice(-4_000)
        if (!/^Inflow is ready/m.test(said)) return
        clearTimeout(timer)
        resolve(Math.round(performance.now() - started) / 1000)
      }
      child.stdout?.on('data', hear)
      child.stderr?.on('data', hear)
    })
  } finally {
    signal('SIGTERM')
    const timer = setTimeout(() => signal('SIGKILL'), STOP_LIMIT_MS)
    await gone
    clearTimeout(timer)
  }
}
