import { beforeAll } from 'vitest'
import { registerMasterKey } from '../../src/crypto/check-master-key.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { seedGrowth } from '../bench/seed-growth.ts'
import { setForDatabase, useDatabase } from '../support/database.ts'
import { MASTER_KEY } from '../support/service.ts'
import { seedOthers } from './seed-others.ts'

/** A plan node as EXPLAIN (FORMAT JSON) reports it. */
export interface PlanNode {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Actual Rows': number
  readonly 'Rows Removed by Filter'?: number
  readonly 'Actual Loops': number
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
  readonly Plans?: readonly PlanNode[]
}

/** A statement that ran, and its plan. */
export interface Explained {
  readonly text: string
  readonly plan: PlanNode
}

/** A full database that reports the plan of each statement, also inside functions. */
export type ExplainedDatabase = ReturnType<typeof useDatabase> & {
  /** The statements since the last call. */
  take(): Explained[]
}

/**
 * Opened before the tests of a file. `auto_explain` reports the plans of the service's own statements,
 * including the plans that prepared statements have at that time.
 */
export function useExplainedDatabase(transactions: number): ExplainedDatabase {
  let statements: Explained[] = []
  const db = useDatabase(16, async (url) => {
    await seedGrowth(url, {
      businesses: transactions / 40,
      accounts: transactions / 5,
      transactions,
      deliveries: transactions / 2,
      numberedMax: 500,
    })
    await seedOthers(url, transactions)
    await setForDatabase(url, SETTINGS)
  })
  beforeAll(async () => {
    const { durablePool, relaxedPool, recordingPool, orm } = db.database
    const hear = ({ message = '' }: { readonly message?: string | undefined }): void => {
      const at = message.indexOf('{')
      if (!message.startsWith('duration: ') || at === -1) return
      const explained = JSON.parse(message.slice(at)) as { 'Query Text': string; Plan: PlanNode }
      statements.push({ text: explained['Query Text'], plan: explained.Plan })
    }
    for (const pool of [durablePool, relaxedPool, recordingPool]) {
      pool.on('connect', (client) => client.on('notice', hear))
    }
    // Seeded rows are not encrypted, so the service would take its own key for a wrong one.
    await registerMasterKey(orm, createEncrypter(MASTER_KEY))
  })
  return Object.assign(db, {
    take() {
      const taken = statements
      statements = []
      return taken
    },
  })
}

const SETTINGS = {
  session_preload_libraries: 'auto_explain',
  'auto_explain.log_min_duration': '0',
  'auto_explain.log_analyze': 'on',
  'auto_explain.log_buffers': 'on',
  'auto_explain.log_timing': 'off',
  'auto_explain.log_nested_statements': 'on',
  'auto_explain.log_format': 'json',
  'auto_explain.log_level': 'notice',
  'auto_explain.log_parameter_max_length': '0',
}

/** A plan's nodes, the root first. */
export function* nodesOf(plan: PlanNode): Generator<PlanNode> {
  yield plan
  for (const part of plan.Plans ?? []) yield* nodesOf(part)
}

/** How many pages of 8 KiB a statement read. */
export function buffersOf({ plan }: Explained): number {
  return plan['Shared Hit Blocks'] + plan['Shared Read Blocks']
}
