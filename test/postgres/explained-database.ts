import pg from 'pg'
import { afterAll, beforeAll } from 'vitest'
import { ENTITIES } from '../../src/app/entities.ts'
import { registerMasterKey } from '../../src/crypto/check-master-key.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { type Database, openDatabase } from '../../src/postgres/orm.ts'
import { seedGrowth } from '../bench/seed-growth.ts'
import { createTestDatabase } from '../support/database.ts'
import { MASTER_KEY } from '../support/service.ts'
import { seedOthers } from './seed-others.ts'

const SEED_LIMIT_MS = 300_000

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
export interface ExplainedDatabase {
  readonly url: string
  readonly database: Database
  /** The statements since the last call. */
  take(): Explained[]
}

/**
 * Opened before the tests of a file. `auto_explain` reports the plans of the service's own statements,
 * including the plans that prepared statements have at that time.
 */
export function useExplainedDatabase(transactions: number): ExplainedDatabase {
  let made: Awaited<ReturnType<typeof createTestDatabase>>
  let database: Database
  let statements: Explained[] = []
  beforeAll(async () => {
    made = await createTestDatabase()
    await seedGrowth(made.url, {
      businesses: transactions / 40,
      accounts: transactions / 5,
      transactions,
      deliveries: transactions / 2,
      numberedMax: 500,
    })
    await seedOthers(made.url, transactions)
    await explainAll(made.url)
    database = await openDatabase(made.url, ENTITIES)
    const hear = ({ message = '' }: { readonly message?: string | undefined }): void => {
      const at = message.indexOf('{')
      if (!message.startsWith('duration: ') || at === -1) return
      const explained = JSON.parse(message.slice(at)) as { 'Query Text': string; Plan: PlanNode }
      statements.push({ text: explained['Query Text'], plan: explained.Plan })
    }
    for (const pool of [database.durablePool, database.relaxedPool, database.recordingPool]) {
      pool.on('connect', (client) => client.on('notice', hear))
    }
    // Seeded rows are not encrypted, so the service would take its own key for a wrong one.
    await registerMasterKey(database.orm, createEncrypter(MASTER_KEY))
  }, SEED_LIMIT_MS)
  afterAll(async () => {
    await database?.close()
    await made?.drop()
  })
  return {
    get url() {
      return made.url
    },
    get database() {
      return database
    },
    take() {
      const taken = statements
      statements = []
      return taken
    },
  }
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

/** Applies to connections from now on. */
async function explainAll(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const name = new URL(url).pathname.slice(1)
    for (const [setting, value] of Object.entries(SETTINGS)) {
      await client.query(`alter database ${name} set ${setting} = '${value}'`)
    }
  } finally {
    await client.end()
  }
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
