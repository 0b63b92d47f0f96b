import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { startGrpcLoad } from './grpc-load.ts'
import { type Benchmark, roundsOf } from './rounds.ts'
import { ACCOUNTS } from './seed.ts'
import { memoryOf, ROOT, readMetrics, startGroup, startSeeded } from './service.ts'
import { EVENTS, SUBSCRIBERS, seedEvents, startSubscribers } from './streams.ts'

/** The memory of one process after payments and subscribers, each as in its own benchmark. */
export const memory: Benchmark = async (bench) => {
  const service = await startSeeded(bench)
  await seedEvents(service.databaseUrl, EVENTS)
  const ingest = await startGrpcLoad(bench, service, { kind: 'record', accounts: ACCOUNTS })
  const fanout = await startSubscribers(bench, service, EVENTS)
  const read = async () => memoryOf(await readMetrics(service))
  const [ours] = await roundsOf(bench, ['MiB'], async () => {
    const { failures, firstFailure } = await ingest.run(bench.seconds)
    if (failures > 0) throw new Error(`${failures} failures, first: ${firstFailure}`)
    const before = await read()
    await fanout.run(undefined)
    const after = await read()
    const details = {
      'MiB before the subscribers': before.residentMib,
      'of heap': after.heapTotalMib,
      'used of it': after.heapMib,
      external: after.externalMib,
    }
    return [{ value: after.residentMib, details }]
  })
  const what = `resident after ingest, then ${SUBSCRIBERS} subscribers`
  return [{ what, unit: ' MiB', ours, yardstick: undefined, target: { atMost: 360 } }]
}

/** The time from `npm start` until the service reports that it is ready. */
export const start: Benchmark = async (bench) => {
  let round = 0
  const [fresh, existing] = await roundsOf(bench, ['fresh s', 'existing s'], async () => {
    round += 1
    const dataDir = join(bench.folder, `start-${round}`)
    bench.onEnd(() => rm(dataDir, { recursive: true, force: true }))
    return [{ value: await secondsToReady(dataDir) }, { value: await secondsToReady(dataDir) }]
  })
  const row = { unit: 's', yardstick: undefined }
  return [
    { what: 'npm start, existing data folder', ...row, ours: existing, target: { atMost: 1.5 } },
    { what: 'npm start, fresh data folder', ...row, ours: fresh, target: { atMost: 4 } },
  ]
}

async function secondsToReady(dataDir: string): Promise<number> {
  const { DATABASE_URL: _, ...environment } = process.env
  const started = performance.now()
  const settings = { DATA_DIR: dataDir, HTTP_PORT: '0', GRPC_PORT: '0' }
  const service = startGroup('npm', ['start'], ROOT, { ...environment, ...settings })
  try {
    await service.ready
    return Math.round(performance.now() - started) / 1000
  } finally {
    await service.stop()
  }
}
