import { createAuditExport } from '../auth/audit/export-audit-head.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import { createFiguresJob } from '../overview/figures/figures-job.ts'
import { createPartitionJob } from '../postgres/partitions/job.ts'
import { registerPartitionMetrics } from '../postgres/partitions/metrics.ts'
import type { Domains } from './compose-domains.ts'
import { partitionedTables } from './partitioned-tables.ts'
import type { ServiceOptions } from './service-options.ts'

interface Dependencies {
  readonly options: ServiceOptions
  readonly domains: Domains
  readonly encrypter: Encrypter
}

/** The work that no call waits for. Locks and leases let one instance at a time do what is done once. */
interface BackgroundWork {
  start(): void
  /** Stops the work that is no domain's; the domains stop their own. */
  stop(): Promise<unknown>
}

export function createBackgroundWork(dependencies: Dependencies): BackgroundWork {
  const { options, domains, encrypter } = dependencies
  const { config, database, clock, log } = options
  const { pool } = database
  const { relay, settlements, payments, metrics } = domains
  const auditExport = createAuditExport({ pool, keys: encrypter, log, metrics })
  const tables = partitionedTables(pool, clock, config)
  const partitions = createPartitionJob({ pool, clock, log, tables })
  const figures = createFiguresJob({ database, clock, log })
  registerPartitionMetrics(metrics, pool, clock, tables)
  return {
    start() {
      auditExport.start()
      partitions.start()
      figures.start()
      relay?.start()
      settlements.start()
      payments.start()
    },
    stop: () => Promise.all([auditExport.stop(), partitions.stop(), figures.stop(), relay?.stop()]),
  }
}
