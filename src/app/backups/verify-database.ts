import { NO_HASH } from '../../auth/audit/audit-hash.ts'
import type { AuditKeys } from '../../auth/audit/audit-mac.ts'
import { verifyAudit } from '../../auth/audit/verify-audit.ts'
import { checkMasterKey, MasterKeyError } from '../../crypto/check-master-key.ts'
import { createEncrypter, type Encrypter, type KeyRing } from '../../crypto/encryption.ts'
import { readLogState } from '../../events/log-state.ts'
import { requireSchema, SchemaError } from '../../postgres/migrate.ts'
import type { Database } from '../../postgres/orm.ts'
import { verifyLedger } from '../../settlement/verification/verify-ledger.ts'
import { readLatestRecordedMs } from '../../transactions/ledger/verify-transactions.ts'
import { encryptedTables } from '../encrypted-tables.ts'

/** What a database contains, and what is wrong with it. */
export interface VerifiedDatabase {
  /** When the latest payment was recorded; undefined if there is none. */
  readonly latestPaymentAt: Date | undefined
  readonly transactions: number
  readonly postings: number
  /** The last position of the event log. */
  readonly events: bigint
  readonly epoch: number
  readonly auditEntries: bigint
  /** The hash of the last entry of the audit log. */
  readonly auditHead: string
  /** One line for each problem; of many discrepancies, the last line has the number. */
  readonly problems: readonly string[]
}

type OnProgress = (text: string, done: number, total: number) => void

const PROBLEMS_MAX = 50

/**
 * Verifies a database that no service has to use: its schema, its master key, its ledger and its audit log.
 * Changes nothing.
 *
 * @param keys the master keys; undefined: the MACs of the audit log are not verified
 */
export async function verifyDatabase(
  database: Database,
  keys: KeyRing | undefined,
  onProgress: OnProgress,
): Promise<VerifiedDatabase> {
  const { pool } = database
  const problems: string[] = []
  const empty = { latestPaymentAt: undefined, transactions: 0, postings: 0, events: 0n, epoch: 0 }
  const noAudit = { auditEntries: 0n, auditHead: NO_HASH }
  const schema = await requireSchema(database).catch((error: unknown) => {
    if (error instanceof SchemaError) return error.message
    throw error
  })
  if (schema !== undefined) return { ...empty, ...noAudit, problems: [schema] }
  const encrypter = keys && createEncrypter(keys.current, keys.others)
  const wrongKey = encrypter && (await keyProblem(database, encrypter))
  if (wrongKey !== undefined) problems.push(wrongKey)
  const latestMs = await readLatestRecordedMs(pool)
  const latestPaymentAt = latestMs === undefined ? undefined : new Date(latestMs)
  const { epoch, end } = await readLogState(pool)
  const ledger = await followLedger(database, problems, onProgress)
  const trusted = wrongKey === undefined ? encrypter : undefined
  const audit = await followAudit(database, trusted ?? HASHES_ONLY, problems, onProgress)
  return { latestPaymentAt, epoch, events: end.position, ...ledger, ...audit, problems }
}

/** Accepts every MAC, where no key can verify them. */
const HASHES_ONLY: AuditKeys = {
  mac: () => Buffer.of(),
  isMacOf: () => true,
  knowsKeyOf: () => true,
}

async function keyProblem(database: Database, encrypter: Encrypter): Promise<string | undefined> {
  try {
    await checkMasterKey(database.orm, encrypter, encryptedTables(database))
    return undefined
  } catch (error) {
    if (error instanceof MasterKeyError) return error.message
    throw error
  }
}

async function followLedger({ pool }: Database, problems: string[], onProgress: OnProgress) {
  const sum = { transactions: 0, postings: 0 }
  let found = 0
  for await (const part of verifyLedger(pool)) {
    sum.transactions = part.transactions
    sum.postings = part.postings
    found = part.discrepancyCount
    for (const { subject, problem } of part.discrepancies) {
      if (problems.length < PROBLEMS_MAX) problems.push(`${subject}: ${problem}`)
    }
    onProgress('verifying transactions', part.transactions, part.estimatedTransactions)
  }
  if (found > PROBLEMS_MAX) problems.push(`the ledger has ${found} discrepancies`)
  return sum
}

async function followAudit(
  database: Database,
  keys: AuditKeys,
  problems: string[],
  onProgress: OnProgress,
) {
  let last = { auditEntries: 0n, auditHead: NO_HASH }
  for await (const part of verifyAudit(database, keys, '', new AbortController().signal)) {
    last = { auditEntries: part.number, auditHead: part.hash }
    const { broken } = part
    if (broken) problems.push(`the audit log: entry ${broken.number} ${broken.why}`)
    onProgress('verifying audit entries', Number(part.number), Number(part.headNumber))
  }
  return last
}
