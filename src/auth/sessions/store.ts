import type { Pool } from 'pg'
import { DAY_MS } from '../../core/durations.ts'
import { firstIdAt } from '../../core/ids.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import type { Scope, SessionKind } from '../caller.ts'

/** Joins the token or portal link whose revocation ends a session. */
const CALLERS = `left join internal_token t on s.kind = 'token' and t.id = s.caller_id
  left join portal_link p on s.kind = 'portal' and p.id = s.caller_id`

/** Whether a session, its token or its portal link was revoked. A session never outlives the other two. */
const REVOKED = `(s.revoked_at is not null
  or s.kind = 'token' and s.caller_id <> 'bootstrap' and (t.id is null or t.revoked_at is not null)
  or s.kind = 'portal' and (p.id is null or p.revoked_at is not null))`

/** How long ended sessions and expired portal links are kept. */
const KEPT_MS = 90 * DAY_MS

/** The most rows of a table that one sign-in deletes. */
const DELETED_MAX = 100

/** A session. Times in milliseconds since the Unix epoch. */
export interface SessionRow {
  readonly id: string
  readonly kind: SessionKind
  readonly callerId: string
  readonly name: string
  readonly scopes: readonly Scope[]
  readonly businessIds: readonly string[] | null
  readonly address: string
  readonly createdAtMs: number
  readonly lastUsedAtMs: number
  readonly expiresAtMs: number
  readonly revokedAtMs: number | null
  /** Whether the session, its token or its portal link was revoked. */
  readonly revoked: boolean
}

const COLUMNS = `s.id, s.kind, s.caller_id as "callerId", s.name, s.scopes, s.business_ids as "businessIds",
  s.address, round(date_part('epoch', s.created_at) * 1000) as "createdAtMs",
  round(date_part('epoch', s.last_used_at) * 1000) as "lastUsedAtMs",
  round(date_part('epoch', s.expires_at) * 1000) as "expiresAtMs",
  round(date_part('epoch', s.revoked_at) * 1000) as "revokedAtMs", ${REVOKED} as revoked`

/** A session with the hash and proof that verify its secret. */
interface StoredSession extends SessionRow {
  readonly secretHash: Uint8Array
  readonly proof: Uint8Array | null
}

/** Returns a session; undefined if there is none with this id. */
export async function findSession(
  pool: Queryable,
  sessionId: string,
): Promise<StoredSession | undefined> {
  const { rows } = await pool.query<StoredSession>({
    name: 'session-find',
    text: `select ${COLUMNS}, s.secret_hash as "secretHash", s.proof from session s ${CALLERS}
      where s.id = $1`,
    values: [sessionId],
  })
  const [row] = rows
  // Copied, because a cached view would keep the driver's whole 64 KiB buffer.
  const copied = (bytes: Uint8Array | null) => bytes && Uint8Array.from(bytes)
  return row && { ...row, secretHash: Uint8Array.from(row.secretHash), proof: copied(row.proof) }
}

/** The sessions to list. */
interface SessionFilter {
  readonly limit: number
  /** The id of the last session of the previous page. */
  readonly before: string | undefined
  /** Set to list only sessions that can still be used; undefined: all. */
  readonly active:
    | { readonly nowMs: number; readonly idleMs: number; readonly beganSinceMs: number }
    | undefined
}

/** Returns sessions, newest first: one row more than `limit` if there are more. */
export async function listSessionRows(
  on: Queryable,
  { limit, before, active }: SessionFilter,
): Promise<readonly SessionRow[]> {
  const { rows } = await on.query<SessionRow>(
    `select ${COLUMNS} from session s ${CALLERS}
      where ($2::text is null or s.id < $2)
        and ($3::text is null
          or s.id >= $3 and not ${REVOKED} and s.expires_at > $4 and s.last_used_at > $5)
      order by s.id desc limit $1`,
    [
      limit + 1,
      before ?? null,
      // Ids begin with the time, so sessions that expired long ago are not read.
      active ? firstIdAt('ses', active.beganSinceMs) : null,
      active ? new Date(active.nowMs) : null,
      active ? new Date(active.nowMs - active.idleMs) : null,
    ],
  )
  return rows
}

/** Records when a session was used, unless another instance recorded a later use. */
export async function recordSessionUse(
  pool: Pool,
  sessionId: string,
  nowMs: number,
): Promise<void> {
  await pool.query({
    name: 'session-record-use',
    text: 'update session set last_used_at = $2 where id = $1 and last_used_at < $2',
    values: [sessionId, new Date(nowMs)],
  })
}

/** Deletes sessions, codes and links that expired long ago. Ids begin with the time of creation. */
export async function deleteExpired(
  on: Queryable,
  nowMs: number,
  ages: { readonly sessionMs: number; readonly linkMs: number; readonly codeMs: number },
): Promise<void> {
  await on.query(
    `with expired_session as (delete from session where id in
        (select id from session where id < $1 order by id limit ${DELETED_MAX})),
      expired_code as (delete from sign_in_code where id in
        (select id from sign_in_code where id < $2 order by id limit ${DELETED_MAX}
          for update skip locked))
      delete from portal_link where id in
        (select id from portal_link where id < $3 order by id limit ${DELETED_MAX})`,
    [
      firstIdAt('ses', nowMs - ages.sessionMs - KEPT_MS),
      firstIdAt('sic', nowMs - ages.codeMs),
      firstIdAt('plk', nowMs - ages.linkMs - KEPT_MS),
    ],
  )
}
