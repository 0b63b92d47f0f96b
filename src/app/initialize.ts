import { randomBytes } from 'node:crypto'
import { link, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { parseEnv } from 'node:util'
import { beginAuditLog } from '../auth/audit/export-audit-head.ts'
import type { Actor } from '../auth/caller.ts'
import { createBusiness } from '../businesses/create-business.ts'
import { listBusinesses } from '../businesses/get-business.ts'
import { secretText } from '../config/settings.ts'
import { systemClock } from '../core/clock.ts'
import { assert } from '../core/errors.ts'
import { createPrivate, syncFolder } from '../core/private-file.ts'
import { checkMasterKey, registerMasterKey } from '../crypto/check-master-key.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import { inTransaction } from '../postgres/in-transaction.ts'
import type { Database } from '../postgres/orm.ts'
import { encryptedTables } from './tables.ts'

/** The advisory lock of a first start: any number not used elsewhere. */
const INIT_LOCK = 4_736_352

/** The first business to create. */
interface FirstBusiness {
  readonly name: string
  readonly alias: string
  /** The mode of its first key. */
  readonly live: boolean
}

/** The business that a first start created, or found. */
export interface Initialized {
  readonly business:
    | { readonly id: string; readonly name: string; readonly created: boolean }
    | undefined
  /** The key of a created business, which cannot be read again; undefined: the business existed. */
  readonly secretKey: string | undefined
}

/**
 * Registers the master key in a migrated database, and creates the first business. Existing rows are not changed, even if two
 * initializations run at once or an earlier one was interrupted.
 *
 * @param first undefined: no business is created
 * @throws MasterKeyError if the database was encrypted with another key
 */
export async function initialize(
  database: Database,
  encrypter: Encrypter,
  first: FirstBusiness | undefined,
  actor: Actor,
): Promise<Initialized> {
  const { orm, durablePool } = database
  return inTransaction(durablePool, async (client) => {
    await client.query('select pg_advisory_xact_lock($1)', [INIT_LOCK])
    const isUnused = await checkMasterKey(orm, encrypter, encryptedTables(database))
    if (isUnused) await beginAuditLog(durablePool, encrypter)
    await registerMasterKey(orm, encrypter)
    const [found] = await listBusinesses(database, { limit: 1, after: undefined })
    if (found !== undefined) {
      const { id, name } = found
      return { business: { id, name, created: false }, secretKey: undefined }
    }
    if (first === undefined) return { business: undefined, secretKey: undefined }
    const { business, secretKey } = await createBusiness(
      { database, clock: systemClock },
      first,
      actor,
    )
    const { id, name } = business
    return { business: { id, name, created: true }, secretKey }
  })
}

/** The generated settings of a first start; a setting that the environment already has is absent. */
export interface GeneratedKeys {
  readonly MASTER_KEY?: string
  readonly ADMIN_TOKEN?: string
}

/**
 * Generates the keys that the environment lacks.
 *
 * @param isUsed whether a service has used the database; it then has a master key and administrators
 */
export function generateKeys(env: NodeJS.ProcessEnv, isUsed: boolean): GeneratedKeys {
  if (isUsed) return {}
  const lacks = (name: string) => secretText(env, name) === undefined
  return {
    ...(lacks('MASTER_KEY') && { MASTER_KEY: randomBytes(32).toString('base64') }),
    ...(lacks('ADMIN_TOKEN') && {
      ADMIN_TOKEN: `inflow_admin_${randomBytes(32).toString('base64url')}`,
    }),
  }
}

/**
 * Writes settings to a new file that only its owner can read. The file appears complete, and is on disk when this returns,
 * because encrypted columns are lost without their key.
 *
 * @throws EEXIST
 */
export async function writeNewSettings(path: string, settings: SettingText): Promise<void> {
  const draft = `${path}.${process.pid}.new`
  await createPrivate(draft, settingLines(settings))
  try {
    // Unlike a rename, a link never replaces a file.
    await link(draft, path)
  } finally {
    await unlink(draft)
  }
  await syncFolder(dirname(path))
}

/** Settings by name. */
type SettingText = Readonly<Record<string, string>>

/** Values that mean the same with and without quotes, also to a shell. */
const PLAIN = /^[\w.:/@%+=,?-]*$/

/**
 * Settings as lines for `--env-file`, systemd and shells. Quotes are avoided if possible, because Docker and kubectl take
 * them for a part of the value.
 */
export function settingLines(settings: SettingText): string {
  const lines = Object.entries(settings).map(([name, value]) => {
    const quote = PLAIN.test(value) ? '' : ["'", '"', '`'].find((each) => !value.includes(each))
    return `${name}=${quote}${value}${quote}\n`
  })
  const text = lines.join('')
  const read = parseEnv(text)
  assert(
    Object.entries(settings).every(([name, value]) => read[name] === value),
    'a setting cannot be written',
  )
  return text
}
