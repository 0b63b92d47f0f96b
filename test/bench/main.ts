import { writeFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { openBench } from './bench.ts'
import { growth } from './growth.ts'
import { bankIngest, ingest, ingestBatch } from './ingest.ts'
import { payouts } from './payouts.ts'
import { memory, start } from './process.ts'
import { relay } from './relay.ts'
import { compareRuns, type Result, table, toJson, toResult } from './report.ts'
import { create, grpcLookup, lookup, lookupCeiling } from './rest.ts'
import type { Benchmark } from './rounds.ts'
import { soak } from './soak.ts'
import { fanout, latency, latencyIdle } from './streams.ts'
import { webhookLatency, webhooks } from './webhooks.ts'

/** By the names that `npm run bench -- <name>` takes, in the order in which they run. */
const BENCHMARKS: Readonly<Record<string, Benchmark>> = {
  ingest,
  'ingest-batch': ingestBatch,
  'bank-ingest': bankIngest,
  lookup,
  'lookup-ceiling': lookupCeiling,
  create,
  'grpc-lookup': grpcLookup,
  fanout,
  latency,
  'latency-idle': latencyIdle,
  relay,
  webhooks,
  'webhook-latency': webhookLatency,
  payouts,
  growth,
  memory,
  start,
  soak,
}

/** A quick run skips these unless they are named. */
const SLOW = ['webhooks', 'webhook-latency', 'payouts', 'growth', 'memory', 'start']

/** It takes so long that it runs only when it is named. */
const ONLY_WHEN_NAMED = 'soak'

const FULL = { seconds: 8, warmUpSeconds: 5 }
const QUICK = { seconds: 0.7, warmUpSeconds: 0.7 }

const USAGE = `npm run bench -- [--quick] [${Object.keys(BENCHMARKS).join('|')}]…, or --compare <BENCH_JSON of one run> <of another>`

/**
 * Runs the named benchmarks, or all but the longest; with `--quick` those that take seconds, in less than two minutes.
 * Absolute figures depend on the machine; the ratio to a yardstick measured in the same run is what counts.
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
  const { quick, names } = readArgs(args)
  const log = (line: string) => console.error(line)
  const bench = await openBench({ rounds: 3, ...(quick ? QUICK : FULL), quick, log })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void bench.close().finally(() => process.exit(1)))
  }
  const results: Result[] = []
  const failed: string[] = []
  try {
    for (const name of names) {
      log(name)
      const startedMs = performance.now()
      try {
        const rows = (await BENCHMARKS[name]?.(bench)) ?? []
        results.push(...rows.map((row) => toResult(name, row)))
      } catch (error) {
        failed.push(name)
        log(`${name} failed: ${error instanceof Error ? error.stack : error}`)
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

function readArgs(args: readonly string[]): { quick: boolean; names: readonly string[] } {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: { quick: { type: 'boolean', default: false } },
    allowPositionals: true,
  })
  const unknown = positionals.filter((name) => !Object.hasOwn(BENCHMARKS, name))
  if (unknown.length > 0) throw new Error(`unknown benchmark ${unknown.join(', ')}; ${USAGE}`)
  const { quick } = values
  const names = Object.keys(BENCHMARKS).filter((name) =>
    positionals.length > 0
      ? positionals.includes(name)
      : name !== ONLY_WHEN_NAMED && !(quick && SLOW.includes(name)),
  )
  return { quick, names }
}

process.exitCode = await main(process.argv.slice(2)).catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error)
  return 1
})
