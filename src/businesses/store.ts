import type { Pool } from 'pg'
import type { CredentialHashes } from '../auth/rate-limits/known-credentials.ts'
import { firstIdAt } from '../core/ids.ts'
import { textArray, timestampArray } from '../postgres/binary-arrays.ts'
import { epochMs } from '../postgres/epoch-ms.ts'
import type { Key } from './key.entity.ts'
import { hashSecret, isForeignKey, keyIdOf } from './secret-key.ts'

/** The columns of a key, and of its business, that authentication needs. */
interface KeyRow extends Pick<Key, 'id' | 'live' | 'secretHash' | 'allowedCidrs' | 'scopes'> {
  readonly businessId: string
  readonly expiresAtMs: number | null
  readonly revoked: boolean
  readonly rateLimitPerSecond: number | null
  readonly rateLimitBurst: number | null
}

/** Returns the key that a secret names by its id or, if it was imported, by its hash. */
export type FindKey = (secret: string) => Promise<KeyRow | undefined>

const KEY_COLUMNS = `k.id, business_id as "businessId", live, secret_hash as "secretHash",
  ${epochMs('expires_at')} as "expiresAtMs", revoked_at is not null as revoked,
  allowed_cidrs as "allowedCidrs", scopes, rate_limit_per_second as "rateLimitPerSecond",
  rate_limit_burst as "rateLimitBurst"`

export function createFindKey(pool: Pool): FindKey {
  return async (secret) => {
    const keyId = keyIdOf(secret)
    if (keyId === undefined && !isForeignKey(secret)) return undefined
    const { rows } = await pool.query<KeyRow>(
      keyId === undefined
        ? {
            name: 'api-key-find-imported',
            text: `select ${KEY_COLUMNS} from api_key k join business b on b.id = k.business_id
              where imported and secret_hash = $1`,
            values: [hashSecret(secret)],
          }
        : {
            name: 'api-key-find',
            text: `select ${KEY_COLUMNS} from api_key k join business b on b.id = k.business_id
              where k.id = $1`,
            values: [keyId],
          },
    )
    const [row] = rows
    // Copied, because a cached view would keep the driver's whole 64 KiB buffer.
    return row && { ...row, secretHash: Uint8Array.from(row.secretHash) }
  }
}

/** Reads the hashes of valid keys: see CredentialHashes. The latest are read once, at the start. */
export function createKeyHashes(pool: Pool): CredentialHashes {
  const valid = 'revoked_at is null and (expires_at is null or expires_at > now())'
  const read = async (where: string, order: string, values: unknown[]) => {
    const { rows } = await pool.query<{ hash: string }>(
      `select encode(secret_hash, 'base64') as hash from api_key
        where ${valid} and ${where} order by ${order} desc limit $1`,
      values,
    )
    return rows.map(({ hash }) => hash)
  }
  return {
    latest: (limit) => read('true', 'coalesce(last_used_at, created_at)', [limit]),
    // Ids begin with the time of issue, so this reads the end of the primary key.
    issuedSince: (sinceMs, limit) => read('id > $2', 'id', [limit, firstIdAt('key', sinceMs)]),
  }
}

/**
 * Writes when keys were last used. Several instances write the same keys, and must wait neither for one
 * another nor for an operator's transaction, so a key whose row is locked is left out.
 *
 * @param uses epoch milliseconds by key id
 * @returns the uses of keys that were left out
 */
export async function writeKeyUses(
  pool: Pool,
  uses: ReadonlyMap<string, number>,
): Promise<ReadonlyMap<string, number>> {
  const { rows } = await pool.query<{ id: string }>({
    name: 'api-key-uses-write',
    text: `with later as (
        select k.id, u.at from api_key k
          join unnest($1::text[], $2::timestamptz[]) as u(id, at) using (id)
        where k.last_used_at is null or k.last_used_at < u.at
      ), free as (
        select k.id, l.at from api_key k join later l using (id)
        where k.last_used_at is null or k.last_used_at < l.at
        for no key update of k skip locked
      ), written as (
        update api_key k set last_used_at = f.at from free f where k.id = f.id
      )
      select id from later where id not in (select id from free)`,
    values: [textArray([...uses.keys()]), timestampArray([...uses.values()])],
  })
  const left = new Set(rows.map(({ id }) => id))
  return new Map([...uses].filter(([keyId]) => left.has(keyId)))
}
