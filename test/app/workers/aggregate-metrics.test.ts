import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createMetricsAggregator, expose } from '../../../src/app/workers/aggregate-metrics.ts'
import type { Measured } from '../../../src/app/workers/messages.ts'

/** A worker with a few metrics. */
function createWorker() {
  const registers = [new Registry()]
  const calls = new Counter({ name: 'calls', help: 'Calls.', labelNames: ['rpc'], registers })
  const seconds = new Histogram({ name: 'seconds', help: 'Time.', buckets: [1], registers })
  const open = new Gauge({ name: 'open', help: 'Open.', registers })
  const state = new Gauge({ name: 'state', help: 'State.', aggregator: 'max', registers })
  const measure = async () => (await registers[0]!.getMetricsAsJSON()) as unknown as Measured
  return { calls, seconds, open, state, measure }
}

/** A first process with workers, some of whom may not answer. */
function createWorkerPool(count: number, answerMs: number) {
  const team = new Map(Array.from({ length: count }, (_, index) => [index + 1, createWorker()]))
  const silent = new Set<number>()
  let asked = 0
  const gather = createMetricsAggregator({
    workers: () => [...team.keys()],
    async ask(worker, id) {
      asked += 1
      if (!silent.has(worker)) gather.heard(worker, id, await team.get(worker)!.measure())
    },
    answerMs,
  })
  const text = async () => expose(await gather.all())
  return { team, silent, gather, text, asked: () => asked }
}

/** The value in a line of the exposition. */
function read(text: string, series: string): number | undefined {
  const line = text.split('\n').find((each) => each.startsWith(`${series} `))
  return line === undefined ? undefined : Number(line.slice(series.length))
}

test('what workers count is summed; of a state, the highest is told', async () => {
  const { team, text } = createWorkerPool(3, 60_000)
  for (const [number, worker] of team) {
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

test('one that does not answer is waited for no longer than the bound, and no count falls', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const { team, silent, text } = createWorkerPool(3, 1_000)
  for (const worker of team.values()) {
    worker.calls.inc({ rpc: 'a' }, 5)
    worker.open.set(1)
  }
  await text()
  silent.add(2)
  team.get(1)!.calls.inc({ rpc: 'a' }, 1)
  const late = text()
  await vi.advanceTimersByTimeAsync(1_000)
  const sums = await late
  expect(read(sums, 'calls{rpc="a"}')).toBe(16)
  // What it has open now, nobody knows.
  expect(read(sums, 'open')).toBe(2)
})

test('what a worker counted stays when it has ended, however many do', async () => {
  const { team, gather, text } = createWorkerPool(2, 60_000)
  for (let life = 1; life <= 4; life++) {
    team.get(2)!.calls.inc({ rpc: 'a' }, 10)
    team.get(2)!.open.set(7)
    expect(read(await text(), 'calls{rpc="a"}')).toBe(10 * life)
    gather.left(2)
    team.set(2, createWorker())
    const after = await text()
    expect(read(after, 'calls{rpc="a"}')).toBe(10 * life)
    expect(read(after, 'open')).toBe(0)
  }
})

test('one that ends while it is asked is not waited for', async () => {
  const { silent, gather, text } = createWorkerPool(2, 60_000)
  silent.add(2)
  const sums = text()
  gather.left(2)
  expect(read(await sums, 'open')).toBe(0)
})

test('those who ask at the same time share the answer', async () => {
  const { text, asked } = createWorkerPool(3, 60_000)
  const texts = await Promise.all([text(), text(), text()])
  expect(asked()).toBe(3)
  expect(new Set(texts).size).toBe(1)
})
