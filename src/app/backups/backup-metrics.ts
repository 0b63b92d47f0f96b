import type { Pool } from 'pg'
import { Gauge, type Registry } from 'prom-client'
import { registerSampledGauges } from '../../core/sampled-gauges.ts'
import { readArchiver } from '../../postgres/backups/archiver.ts'
import { newestBackupMs } from '../../postgres/backups/backup.ts'

/**
 * Registers what an alert about missing backups needs. Read at each scrape.
 *
 * @param folder the folder of backups of the embedded database; undefined: the server has its own backups
 */
export function registerBackupMetrics(
  metrics: Registry,
  pool: Pool,
  folder: string | undefined,
): void {
  new Gauge({
    name: 'inflow_backup_timestamp_seconds',
    help: 'When the newest backup of the embedded database in BACKUP_DIR was made, in Unix time; 0: there is none.',
    labelNames: ['folder'],
    registers: [metrics],
    async collect() {
      if (folder === undefined) return
      this.set({ folder }, ((await newestBackupMs(folder)) ?? 0) / 1_000)
    },
  })
  registerSampledGauges(metrics, () => readArchiver(pool), [
    {
      name: 'inflow_wal_archive_failing',
      help: '1 while the latest attempt of the database server to archive its log failed, else 0.',
      measure: (archiver) => archiver && (archiver.failing ? 1 : 0),
    },
  ])
}
