import pg, { type Pool } from 'pg'
import { replicaName } from '../config/replica-urls.ts'
import { LOGGED_TIMELINE } from '../events/log-state.ts'
import {
  type PrimaryState,
  readPrimary,
  readReplica,
  replicaFault,
  selectReplica,
} from '../postgres/replicas/server-state.ts'
import { createFindings, type Finding } from './finding.ts'

const TIMEOUT_MS = 5_000

/** A replica that is further behind does not catch up within the wait of a read. */
const BEHIND_MAX_BYTES = 16 * 1024 ** 2

/** Checks that each server of DATABASE_READ_URLS follows the primary. */
export async function checkReplicas(
  pool: Pool,
  urls: readonly string[],
): Promise<readonly Finding[]> {
  const findings = createFindings('Database')
  if (urls.length === 0) return findings.all
  const primary = await readPrimary(pool, TIMEOUT_MS)
  const checks = urls.map(async (url) => ({ url, ...(await checkReplica(url, primary)) }))
  for (const { url, state, advice } of await Promise.all(checks)) {
    const text = `the replica ${replicaName(url)} ${state}`
    if (advice === undefined) findings.ok(text)
    else findings.warn(`${text}: reads go to the primary`, advice)
  }
  return findings.all
}

interface Found {
  readonly state: string
  /** Undefined: reads go to the replica. */
  readonly advice?: string
}

async function checkReplica(url: string, primary: PrimaryState): Promise<Found> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: TIMEOUT_MS })
  client.on('error', () => undefined)
  try {
    await client.connect()
    const replica = await readReplica(client, selectReplica(LOGGED_TIMELINE), TIMEOUT_MS)
    const fault = replicaFault(replica, primary)
    if (fault !== undefined) {
      const advice = 'make it a standby of the primary, or remove it from DATABASE_READ_URLS'
      return { state: `is not used, because ${fault}`, advice }
    }
    const bytes = Number(primary.bytes - (replica.bytes ?? 0n))
    if (bytes <= BEHIND_MAX_BYTES) return { state: 'follows the primary' }
    const megabytes = Math.round(bytes / 1024 ** 2)
    return { state: `is ${megabytes} MB behind`, advice: 'find out why it replays the log slowly' }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return { state: `cannot be read (${message || code})`, advice: 'start it, or check the URL' }
  } finally {
    await client.end().catch(() => undefined)
  }
}
