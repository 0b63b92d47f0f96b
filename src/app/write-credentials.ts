import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { Actor } from '../auth/caller.ts'
import { createBusiness } from '../businesses/create-business.ts'
import { getBusiness } from '../businesses/get-business.ts'
import type { Clock } from '../core/clock.ts'
import { Fault } from '../core/errors.ts'
import { readIfPresent, writePrivate } from '../core/private-file.ts'
import type { Database } from '../postgres/orm.ts'

/** The credentials that embedded mode writes to the data folder, ready to use. */
export interface Credentials {
  readonly business_id: string
  readonly secret_key: string
  readonly admin_token: string
  readonly http_url: string
  readonly grpc_url: string
  /** With OPS_PORT. */
  readonly ops_url?: string
}

const FILE = 'credentials.json'

/** The admin token of the data folder, or a new one. */
export async function readAdminToken(dataDir: string): Promise<string> {
  const stored = await readCredentials(dataDir)
  return stored?.admin_token ?? `inflow_admin_${randomBytes(32).toString('base64url')}`
}

/**
 * Writes `credentials.json` (mode 600). The first start creates a demo business; later starts update
 * the URLs and keep the rest.
 */
export async function writeCredentials(
  dataDir: string,
  database: Database,
  clock: Clock,
  actor: Actor,
  fresh: Pick<Credentials, 'admin_token' | 'http_url' | 'grpc_url' | 'ops_url'>,
): Promise<Credentials> {
  const stored = await readCredentials(dataDir)
  const business =
    stored && (await exists(database, stored.business_id))
      ? stored
      : await demo(database, clock, actor)
  const { business_id, secret_key } = business
  const credentials = { business_id, secret_key, ...fresh }
  await writePrivate(dataDir, FILE, `${JSON.stringify(credentials, undefined, 2)}\n`)
  return credentials
}

async function demo(database: Database, clock: Clock, actor: Actor) {
  const request = { name: 'Demo Business', alias: 'Demo' }
  const { business, secretKey } = await createBusiness({ database, clock }, request, actor)
  return { business_id: business.id, secret_key: secretKey }
}

/** False when the file is older than the database, which may have been deleted since. */
async function exists(database: Database, businessId: string): Promise<boolean> {
  try {
    await getBusiness(database, businessId)
    return true
  } catch (error) {
    if (error instanceof Fault && error.reason === 'not_found') return false
    throw error
  }
}

async function readCredentials(dataDir: string): Promise<Credentials | undefined> {
  const text = await readIfPresent(join(dataDir, FILE))
  if (text === undefined) return undefined
  try {
    return JSON.parse(text) as Credentials
  } catch {
    throw new Error(`${join(dataDir, FILE)} is not JSON; delete it to create a new one`)
  }
}
