import { hashIdentityNumbers } from '../accounts/re-encrypt-accounts.ts'
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
  /** Aborts when the service stops. */
  readonly draining: AbortSignal
}

/** The work that one worker does for all. */
interface BackgroundWork {
  /** Does nothing if the work has begun, or the service is stopping. */
  start(): void
  /** Stops the work that is no domain's; the domains stop their own. */
  stop(): Promise<unknown>
}

export function createBackgroundWork(dependencies: Dependencies): BackgroundWork {
  const { options, domains, encrypter, draining } = dependencies
  const { config, database, clock, log } = options
  const { pool } = database
  const { events, webhooks, relay, settlements, payments } = domains
  const { metrics, common } = domains
  const auditExport = createAuditExport({ pool, keys: encrypter, log, metrics })
  const tables = partitionedTables(pool, clock, config)
  const partitions = createPartitionJob({ pool, clock, log, tables })
  const figures = createFiguresJob({ database, clock, log })
  registerPartitionMetrics(common, pool, clock, tables)
  let started = false
  let hashing: Promise<unknown> | undefined
  return {
    start() {
      if (started || draining.aborted) return
      started = true
      hashing = hashIdentityNumbers(database, encrypter, draining).then(
        (ids) =>
          ids.length > 0 && log.error({ accounts: ids.slice(0, 10) }, 'unreadable id numbers'),
        (error: unknown) => log.warn({ err: error }, 'identity numbers are not searchable yet'),
      )
      auditExport.start()
      partitions.start()
      figures.start()
      events.startBackground()
      webhooks.startBackground()
      relay?.start()
      settlements.start()
      payments.start()
    },
    stop: () =>
      Promise.all([hashing, auditExport.stop(), partitions.stop(), figures.stop(), relay?.stop()]),
  }
}
