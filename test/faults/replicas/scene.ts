import { expect, onTestFinished } from 'vitest'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { type CapturedLog, captureLog } from '../../support/captured-log.ts'
import { query } from '../../support/database.ts'
import { type Instance, startInstance } from '../../support/instance.ts'
import { startProxy } from '../../support/proxy.ts'
import { waitFor } from '../../support/wait-for.ts'

/** An instance that reads on a replica, behind a proxy of its own. */
export interface Reader extends Instance {
  readonly proxy: Awaited<ReturnType<typeof startProxy>>
  readonly lines: CapturedLog['lines']
}

/** Starts an instance, which the test stops. */
export async function startReader(primaryUrl: string, replicaUrl: string): Promise<Reader> {
  const proxy = await startProxy(replicaUrl)
  const { log, lines } = captureLog()
  const instance = await startInstance(primaryUrl, { databaseReadUrls: [proxy.through] }, log)
  onTestFinished(instance.close)
  return { ...instance, proxy, lines }
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
  await waitFor(async () => {
    const metric = await reader.metrics.getSingleMetric('inflow_replica_usable')?.get()
    expect(metric?.values.map(({ value }) => value)).toEqual([isUsed ? 1 : 0])
  })
}

/** Pauses the replay of a standby, which goes on for a moment after it is asked. */
export async function pause(url: string): Promise<void> {
  await query(url, 'select pg_wal_replay_pause()')
  await waitFor(async () => {
    const rows = await query(url, 'select pg_get_wal_replay_pause_state() as state')
    expect(rows).toEqual([{ state: 'paused' }])
  })
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
