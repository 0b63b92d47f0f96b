import pino from 'pino'
import { expect, onTestFinished, vi } from 'vitest'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { ENTITIES } from '../../../src/app/entities.ts'
import { migrate } from '../../../src/postgres/migrate.ts'
import { openDatabase } from '../../../src/postgres/orm.ts'
import { startProxy } from '../../client/proxy.ts'
import { type Instance, startInstance } from '../../support/instance.ts'
import { WAIT_LIMIT_MS } from '../../support/wait-for.ts'
import { query } from '../standby.ts'

export const WAIT = { timeout: WAIT_LIMIT_MS, interval: 50 }

/** An instance that reads on a replica, behind a proxy of its own. */
export interface Reader extends Instance {
  readonly proxy: Awaited<ReturnType<typeof startProxy>>
  readonly log: readonly { readonly msg: string; readonly fault?: string }[]
}

export async function migrated(url: string): Promise<void> {
  const database = await openDatabase(url, ENTITIES, { connectionsMax: 2 })
  await migrate(database)
  await database.close()
}

/** Starts an instance, which the test stops. */
export async function startReader(primaryUrl: string, replicaUrl: string): Promise<Reader> {
  const target = new URL(replicaUrl)
  const proxy = await startProxy(target.host)
  const url = Object.assign(new URL(replicaUrl), { host: proxy.address }).href
  const log: { msg: string; fault?: string }[] = []
  const logger = pino(
    { level: 'info' },
    { write: (line: string) => void log.push(JSON.parse(line)) },
  )
  const instance = await startInstance(primaryUrl, { databaseReadUrls: [url] }, logger)
  onTestFinished(instance.close)
  return { ...instance, proxy, log }
}

/** How many reads each server has run. */
export async function readsOf({ metrics }: Instance) {
  const metric = await metrics.getSingleMetric('inflow_reads_total')?.get()
  const reads = { primary: 0, replica: 0 }
  for (const { labels, value } of metric?.values ?? []) {
    reads[labels['target'] === 'primary' ? 'primary' : 'replica'] += value
  }
  return reads
}

/** Waits until an instance uses its replica, or does not. */
export async function untilUsed(reader: Reader, isUsed: boolean): Promise<void> {
  await vi.waitFor(async () => {
    const metric = await reader.metrics.getSingleMetric('inflow_replica_usable')?.get()
    expect(metric?.values.map(({ value }) => value)).toEqual([isUsed ? 1 : 0])
  }, WAIT)
}

/** Pauses the replay of a standby, which goes on for a moment after it is asked. */
export async function pause(url: string): Promise<void> {
  await query(url, 'select pg_wal_replay_pause()')
  await vi.waitFor(async () => {
    const rows = await query(url, 'select pg_get_wal_replay_pause_state() as state')
    expect(rows).toEqual([{ state: 'paused' }])
  }, WAIT)
}

export const resume = (url: string) => query(url, 'select pg_wal_replay_resume()')

/** Records a payment. @returns the id of its transaction; empty if it is unmatched */
export async function pay(instance: Instance, accountNumber: string, sessionId: string) {
  const { transaction } = await instance.client(TransactionService).recordPayment({
    bank: Bank.BANK_PROVIDUS,
    accountNumber,
    sessionId,
    amountMinor: 10_000n,
  })
  return transaction?.id ?? ''
}
