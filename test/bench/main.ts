import { writeFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { openBench } from './bench.ts'
import { create } from './create.ts'
import { fanout } from './fanout.ts'
import { growth } from './growth.ts'
import { grpcLookup } from './grpc-lookup.ts'
import { ingest } from './ingest.ts'
import { ingestBatch } from './ingest-batch.ts'
import { latency } from './latency.ts'
import { lookup } from './lookup.ts'
import { lookupCeiling } from './lookup-ceiling.ts'
import { lookupLimits } from './lookup-limits.ts'
import { memory } from './memory.ts'
import type { Result, Row } from './row.ts'
import { settlement } from './settlement.ts'
import { soak } from './soak.ts'
import { start } from './start.ts'
import { table, toJson } from './table.ts'
import { webhookLatency } from './webhook-latency.ts'
import { webhooks } from './webhooks.ts'

const ROWS: readonly Row[] = [
  ingest,
  ingestBatch,
  lookup,
  lookupCeiling,
  lookupLimits,
  create,
  grpcLookup,
  fanout,
  latency,
  webhooks,
  webhookLatency,
  settlement,
  growth,
  memory,
  start,
  soak,
]

const FULL = { seconds: 8, warmUpSeconds: 5 }
const QUICK = { seconds: 0.7, warmUpSeconds: 0.7 }

const USAGE = `npm run bench -- [--quick] [${ROWS.map((row) => row.name).join('|')}]…`

/**
 * Measures the rows that are named, or all but the longest; quick, in less than two minutes, those that
 * take seconds. Figures of a machine mean little; their ratio to a yardstick measured in the same run is what
 * counts.
 *
 * @returns the exit code: 1 when a measurement failed, 0 otherwise, also when a target is missed
 */
async function main(args: readonly string[]): Promise<number> {
  const { quick, rows } = readArgs(args)
  const log = (line: string) => console.error(line)
  const bench = await openBench({ rounds: 3, ...(quick ? QUICK : FULL), quick, log })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void bench.close().finally(() => process.exit(1)))
  }
  const results: Result[] = []
  const failed: string[] = []
  try {
    for (const row of rows) {
      log(row.name)
      const beganMs = performance.now()
      try {
        results.push(...(await row.measure(bench)))
      } catch (error) {
        failed.push(row.name)
        log(`${row.name} failed: ${error instanceof Error ? error.stack : error}`)
      } finally {
        await bench.endRow()
        log(`  took ${Math.round((performance.now() - beganMs) / 1_000)} s`)
      }
    }
  } finally {
    await bench.close()
  }
  console.log(table(results))
  const path = process.env['BENCH_JSON']
  if (path !== undefined) await writeFile(path, toJson(results, failed))
  if (failed.length > 0) log(`failed: ${failed.join(', ')}`)
  return failed.length > 0 ? 1 : 0
}

function readArgs(args: readonly string[]): { quick: boolean; rows: readonly Row[] } {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: { quick: { type: 'boolean', default: false } },
    allowPositionals: true,
  })
  const unknown = positionals.filter((name) => !ROWS.some((row) => row.name === name))
  if (unknown.length > 0) throw new Error(`there is no ${unknown.join(', ')}; ${USAGE}`)
  const { quick } = values
  const rows = ROWS.filter((row) =>
    positionals.length === 0
      ? !(row.onlyWhenNamed || (quick && row.slow))
      : positionals.includes(row.name),
  )
  return { quick, rows }
}

process.exitCode = await main(process.argv.slice(2)).catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error)
  return 1
})
