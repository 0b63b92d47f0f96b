import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { afterEach, expect, test, vi } from 'vitest'
import { createMetricsAggregator, expose } from '../../../src/app/workers/aggregate-metrics.ts'
import type { WorkerMetrics } from '../../../src/app/workers/messages.ts'
import { createRegistry } from '../../../src/server/metrics.ts'

afterEach(() => void vi.useRealTimers())

/** A worker with a few metrics. */
function createWorker() {
  const registers = [new Registry()]
  const calls = new Counter({ name: 'calls', help: 'Calls.', labelNames: ['rpc'], registers })
  const seconds = new Histogram({ name: 'seconds', help: 'Time.', buckets: [1], registers })
  const open = new Gauge({ name: 'open', help: 'Open.', registers })
  const state = new Gauge({ name: 'state', help: 'State.', aggregator: 'max', registers })
  const measure = async () => (await registers[0]!.getMetricsAsJSON()) as unknown as WorkerMetrics
  return { calls, seconds, open, state, measure }
}

/** A primary process with workers; silent workers do not respond. */
function createWorkerPool(count: number, timeoutMs: number) {
  const workers = new Map(Array.from({ length: count }, (_, index) => [index + 1, createWorker()]))
  const silent = new Set<number>()
  let requested = 0
  const metrics = createMetricsAggregator({
    workers: () => [...workers.keys()],
    async request(worker, id) {
      requested += 1
      if (!silent.has(worker)) metrics.onReport(worker, id, await workers.get(worker)!.measure())
    },
    timeoutMs,
  })
  const text = async () => expose(await metrics.collect(), false)
  return { workers, silent, metrics, text, requests: () => requested }
}

/** The value in a line of the exposition. */
function read(text: string, series: string): number | undefined {
  const line = text.split('\n').find((each) => each.startsWith(`${series} `))
  return line === undefined ? undefined : Number(line.slice(series.length))
}

test('sums the counters of all workers, and exposes the highest value of a state', async () => {
  const { workers, text } = createWorkerPool(3, 60_000)
  for (const [number, worker] of workers) {
    worker.calls.inc({ rpc: 'a' }, number)
    worker.seconds.observe(number / 2)
    worker.open.set(10)
    worker.state.set(number)
  }
  const sums = await text()
  expect(read(sums, 'calls{rpc="a"}')).toBe(6)
  expect(read(sums, 'seconds_bucket{le="1"}')).toBe(2)
  expect(read(sums, 'seconds_count')).toBe(3)
  expect(read(sums, 'open')).toBe(30)
  expect(read(sums, 'state')).toBe(3)
})

test('waits for a silent worker until the timeout, and no counter falls', async () => {
  const { workers, silent, text } = createWorkerPool(3, 100)
  for (const worker of workers.values()) {
    worker.calls.inc({ rpc: 'a' }, 5)
    worker.open.set(1)
  }
  await text()
  silent.add(2)
  workers.get(1)!.calls.inc({ rpc: 'a' }, 1)
  const sums = await text()
  expect(read(sums, 'calls{rpc="a"}')).toBe(16)
  // The gauge of a silent worker is unknown.
  expect(read(sums, 'open')).toBe(2)
})

test('keeps the counts of workers that have ended', async () => {
  const { workers, metrics, text } = createWorkerPool(2, 60_000)
  for (let life = 1; life <= 4; life++) {
    workers.get(2)!.calls.inc({ rpc: 'a' }, 10)
    workers.get(2)!.open.set(7)
    expect(read(await text(), 'calls{rpc="a"}')).toBe(10 * life)
    metrics.onExit(2)
    workers.set(2, createWorker())
    const after = await text()
    expect(read(after, 'calls{rpc="a"}')).toBe(10 * life)
    expect(read(after, 'open')).toBe(0)
  }
})

test('does not wait for a worker that ends before it responds', async () => {
  const { silent, metrics, text } = createWorkerPool(2, 60_000)
  silent.add(2)
  const sums = text()
  metrics.onExit(2)
  expect(read(await sums, 'open')).toBe(0)
})

test('concurrent scrapes share one collection', async () => {
  const { text, requests } = createWorkerPool(3, 60_000)
  const texts = await Promise.all([text(), text(), text()])
  expect(requests()).toBe(3)
  expect(new Set(texts).size).toBe(1)
})

test('OpenMetrics: the latest exemplar of a bucket stays, and names are those of one process', async () => {
  const parts = await Promise.all(
    ['a', 'b', 'c'].map(async (traceId, index) => {
      const registry = createRegistry(true)
      const registers = [registry]
      const options = { help: 'x', labelNames: ['rpc'], registers }
      const calls = new Counter({ ...options, name: 'calls_total' })
      const seconds = new Histogram({
        ...{ ...options, name: 'seconds', buckets: [1, 5], enableExemplars: true },
      })
      calls.inc({ rpc: 'one' }, 2)
      seconds.observe({ labels: { rpc: 'one' }, value: 0.5 })
      vi.setSystemTime(1_000_000 + 1_000 * ((index + 1) % 3))
      seconds.observe({
        ...{ labels: { rpc: 'one' }, value: 2, exemplarLabels: { trace_id: traceId } },
      })
      // Writing the text of one process changes the names of its counters.
      if (index === 0) await registry.metrics()
      return (await registry.getMetricsAsJSON()) as unknown as WorkerMetrics
    }),
  )
  const lines = (await expose(parts, true)).split('\n')
  expect(lines).toEqual([
    '# HELP calls x',
    '# TYPE calls counter',
    'calls_total{rpc="one"} 6',
    '# HELP seconds x',
    '# TYPE seconds histogram',
    'seconds_bucket{le="1",rpc="one"} 3',
    'seconds_bucket{le="5",rpc="one"} 6 # {trace_id="b"} 2 1002',
    'seconds_bucket{le="+Inf",rpc="one"} 6',
    'seconds_sum{rpc="one"} 7.5',
    'seconds_count{rpc="one"} 6',
    '# EOF',
    '',
  ])
})
