import { LRUCache } from 'lru-cache'
import type { Pool } from 'pg'
import type { Encrypter } from '../../crypto/encryption.ts'
import { type Connection, decryptConnection } from './connection.ts'

/** The most endpoints whose connections are kept decrypted. */
const CONNECTIONS_MAX = 1_000

interface Known {
  readonly version: number
  readonly connection: Connection | undefined
}

/** Returns the connection of an endpoint, at a version or a later one. */
export type LoadConnection = (
  endpointId: string,
  version: number,
) => Promise<Connection | undefined>

/** Reads connections once for each version; endpoints that never had one cost nothing. */
export function createLoadConnection(pool: Pool, encrypter: Encrypter): LoadConnection {
  const known = new LRUCache<string, Known>({ max: CONNECTIONS_MAX })
  return async (endpointId, version) => {
    if (version === 0) return undefined
    const found = known.get(endpointId)
    if (found && found.version >= version) return found.connection
    const read = await readConnection(pool, encrypter, endpointId)
    known.set(endpointId, read)
    return read.connection
  }
}

async function readConnection(pool: Pool, encrypter: Encrypter, id: string): Promise<Known> {
  const { rows } = await pool.query<{ version: number; encrypted: Buffer | null }>({
    name: 'webhook-connection',
    text: `select connection_version as version, connection_encrypted as encrypted
      from webhook_endpoint where id = $1`,
    values: [id],
  })
  const { version = 0, encrypted = null } = rows[0] ?? {}
  return {
    version,
    connection: encrypted ? decryptConnection(encrypter, id, encrypted) : undefined,
  }
}
