import { beginAuditLog } from '../auth/audit/export-audit-head.ts'
import type { Actor } from '../auth/caller.ts'
import { createBusiness } from '../businesses/create-business.ts'
import { listBusinesses } from '../businesses/get-business.ts'
import { systemClock } from '../core/clock.ts'
import { checkMasterKey, registerMasterKey } from '../crypto/check-master-key.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import { inTransaction } from '../postgres/in-transaction.ts'
import type { Database } from '../postgres/orm.ts'
import { encryptedTables } from './encrypted-tables.ts'

/** The advisory lock of a first start: any number not used elsewhere. */
const INIT_LOCK = 4_736_352

/** The first business to create. */
interface FirstBusiness {
  readonly name: string
  readonly alias: string
  /** The mode of its first key. */
  readonly live: boolean
}

/** The business that a first start made, or found. */
export interface Initialized {
  readonly business:
    | { readonly id: string; readonly name: string; readonly created: boolean }
    | undefined
  /** Of a created business; it cannot be read again. */
  readonly secretKey: string | undefined
}

/**
 * Registers the master key in a migrated database, and creates the first business. What exists stays as it is, also
 * if two run at once, or if an earlier one was interrupted.
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
