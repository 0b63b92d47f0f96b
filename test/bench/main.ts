import { writeFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { bankIngest } from './bank-ingest.ts'
import { openBench } from './bench.ts'
import type { Benchmark, Result } from './benchmark.ts'
import { compareRuns } from './compare-runs.ts'
import { fanout } from './fanout.ts'
import { growth } from './growth.ts'
import { grpcLookup } from './grpc-lookup.ts'
import { ingest, ingestBatch, ingestTraced } from './ingest.ts'
import { latency } from './latency.ts'
import { latencyIdle } from './latency-idle.ts'
import { memory } from './memory.ts'
import { relay } from './relay.ts'
import { create, lookup, lookupCeiling, lookupLimits } from './rest.ts'
import { retention } from './retention.ts'
import { settlement } from './settlement.ts'
import { soak } from './soak.ts'
import { start } from './start.ts'
import { table, toJson } from './table.ts'
import { webhookLatency } from './webhook-latency.ts'
import { webhooks } from './webhooks.ts'

const BENCHMARKS: readonly Benchmark[] = [
  ingest,
  ingestBatch,
  ingestTraced,
  bankIngest,
  lookup,
  lookupCeiling,
  lookupLimits,
  create,
  grpcLookup,
  fanout,
  latency,
  latencyIdle,
  relay,
  webhooks,
  webhookLatency,
  settlement,
  retention,
  growth,
  memory,
  start,
  soak,
]

const FULL = { seconds: 8, warmUpSeconds: 5 }
const QUICK = { seconds: 0.7, warmUpSeconds: 0.7 }

const USAGE = `npm run bench -- [--quick] [${BENCHMARKS.map((benchmark) => benchmark.name).join('|')}]…, or --compare <BENCH_JSON of one run> <of another>`

/**
 * Runs the named benchmarks, or all but the longest; with `--quick` those that take seconds, in less
 * than two minutes. Absolute figures depend on the machine; the ratio to a yardstick measured in the
 * same run is what counts.
 *
 * @returns the exit code: 1 when a measurement failed, or a compared row is slower; 0 otherwise, also when a target is
 * missed
 */
async function main(args: readonly string[]): Promise<number> {
  if (args[0] === '--compare') return (await compareRuns(args.slice(1))) > 0 ? 1 : 0
  if (args.includes('--help')) {
    console.log(USAGE)
    return 0
  }
  const { quick, benchmarks } = readArgs(args)
  const log = (line: string) => console.error(line)
  const bench = await openBench({ rounds: 3, ...(quick ? QUICK : FULL), quick, log })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void bench.close().finally(() => process.exit(1)))
  }
  const results: Result[] = []
  const failed: string[] = []
  try {
    for (const benchmark of benchmarks) {
      log(benchmark.name)
      const startedMs = performance.now()
      try {
        results.push(...(await benchmark.measure(bench)))
      } catch (error) {
        failed.push(benchmark.name)
        log(`${benchmark.name} failed: ${error instanceof Error ? error.stack : error}`)
      } finally {
        await bench.endBenchmark()
        log(`  took ${Math.round((performance.now() - startedMs) / 1_000)} s`)
      }
    }
  } finally {
    await bench.close()
  }
  console.log(table(results, bench.server))
  const path = process.env['BENCH_JSON']
  if (path !== undefined) await writeFile(path, toJson(results, bench.server, failed))
  if (failed.length > 0) log(`failed: ${failed.join(', ')}`)
  return failed.length > 0 ? 1 : 0
}

function readArgs(args: readonly string[]): { quick: boolean; benchmarks: readonly Benchmark[] } {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: { quick: { type: 'boolean', default: false } },
    allowPositionals: true,
  })
  const unknown = positionals.filter(
    (name) => !BENCHMARKS.some((benchmark) => benchmark.name === name),
  )
  if (unknown.length > 0) throw new Error(`unknown benchmark ${unknown.join(', ')}; ${USAGE}`)
  const { quick } = values
  const benchmarks = BENCHMARKS.filter((benchmark) =>
    positionals.length === 0
      ? !(benchmark.onlyWhenNamed || (quick && benchmark.slow))
      : positionals.includes(benchmark.name),
  )
  return { quick, benchmarks }
}

process.exitCode = await main(process.argv.slice(2)).catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error)
  return 1
})
