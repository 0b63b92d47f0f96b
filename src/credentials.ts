import { randomBytes } from 'node:crypto'
import { chmod, mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createBusiness } from './businesses/create-business.ts'
import { getBusiness } from './businesses/get-business.ts'
import { SYSTEM } from './caller.ts'
import type { Clock } from './clock.ts'
import { Fault } from './errors.ts'
import type { Database } from './store/orm.ts'

/** What embedded mode keeps in the data folder, so that the service can be used at once. */
export interface Credentials {
  readonly business_id: string
  readonly secret_key: string
  readonly admin_token: string
  readonly http_url: string
  readonly grpc_url: string
}

const FILE = 'credentials.json'

/** The master key of the data folder; made at the first start. @returns 32 bytes */
export async function readMasterKey(dataDir: string): Promise<Buffer> {
  const file = join(dataDir, 'master.key')
  const kept = await readIfPresent(file)
  if (kept !== undefined) {
    const key = Buffer.from(kept.trim(), 'base64')
    if (key.length !== 32) throw new Error(`${file} does not hold base64 of 32 bytes`)
    return key
  }
  const key = randomBytes(32)
  await writePrivate(dataDir, 'master.key', `${key.toString('base64')}\n`)
  return key
}

/** The admin token of the data folder, or a new one. */
export async function readAdminToken(dataDir: string): Promise<string> {
  const kept = await readCredentials(dataDir)
  return kept?.admin_token ?? `inflow_admin_${randomBytes(32).toString('base64url')}`
}

/**
 * Writes `credentials.json` (mode 600). The first start makes a demo business; later ones refresh
 * the addresses and keep the rest.
 */
export async function writeCredentials(
  dataDir: string,
  database: Database,
  clock: Clock,
  fresh: Pick<Credentials, 'admin_token' | 'http_url' | 'grpc_url'>,
): Promise<Credentials> {
  const kept = await readCredentials(dataDir)
  const business =
    kept && (await exists(database, kept.business_id)) ? kept : await demo(database, clock)
  const { business_id, secret_key } = business
  const { admin_token, http_url, grpc_url } = fresh
  const credentials = { business_id, secret_key, admin_token, http_url, grpc_url }
  await writePrivate(dataDir, FILE, `${JSON.stringify(credentials, undefined, 2)}\n`)
  return credentials
}

async function demo(database: Database, clock: Clock) {
  const order = { name: 'Demo Business', alias: 'Demo' }
  const { business, secretKey } = await createBusiness(database, clock, order, SYSTEM)
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
    throw new Error(`${join(dataDir, FILE)} is not JSON; delete it to have it made anew`)
  }
}

async function readIfPresent(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Writes beside the file and renames, so that a crash leaves the old one or the new one. */
async function writePrivate(dataDir: string, name: string, text: string): Promise<void> {
  await mkdir(dataDir, { recursive: true })
  const file = join(dataDir, name)
  await writeFile(`${file}.new`, text, { mode: 0o600, flush: true })
  await chmod(`${file}.new`, 0o600)
  await rename(`${file}.new`, file)
}
