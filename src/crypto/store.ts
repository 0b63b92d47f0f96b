import type { Pool } from 'pg'

interface MasterKey {
  readonly id: string
  readonly knownText: Buffer
}

/** A running instance. */
export interface KeyHolder {
  readonly id: string
  readonly currentKeyId: string
  readonly knownKeyIds: readonly string[]
}

export async function listMasterKeys(pool: Pool): Promise<MasterKey[]> {
  const result = await pool.query<{ id: string; known_text: Buffer }>(
    'select id, known_text from master_key order by created_at, id',
  )
  return result.rows.map((row) => ({ id: row.id, knownText: row.known_text }))
}

/** Inserts a key unless it exists. @returns whether this call inserted it */
export async function insertMasterKey(pool: Pool, key: MasterKey): Promise<boolean> {
  const { rowCount } = await pool.query(
    `insert into master_key (id, known_text, created_at) values ($1, $2, clock_timestamp())
      on conflict (id) do nothing`,
    [key.id, key.knownText],
  )
  return rowCount === 1
}

export async function deleteMasterKey(pool: Pool, id: string): Promise<void> {
  await pool.query('delete from master_key where id = $1', [id])
}

/** Deletes a key unless an instance encrypts with it. */
export async function deleteUnusedMasterKey(pool: Pool, id: string): Promise<void> {
  await pool.query(
    `delete from master_key where id = $1
      and not exists (select from master_key_holder where current_key_id = $1)`,
    [id],
  )
}

/** Records that an instance runs, and deletes instances that have not reported for a day. */
export async function upsertHolder(pool: Pool, holder: KeyHolder): Promise<void> {
  await pool.query(
    `with expired as (
        delete from master_key_holder where seen_at < clock_timestamp() - interval '1 day'
      )
      insert into master_key_holder (id, current_key_id, known_key_ids, seen_at)
      values ($1, $2, $3, clock_timestamp())
      on conflict (id) do update set current_key_id = excluded.current_key_id,
        known_key_ids = excluded.known_key_ids, seen_at = excluded.seen_at`,
    [holder.id, holder.currentKeyId, holder.knownKeyIds],
  )
}

export async function deleteHolder(pool: Pool, id: string): Promise<void> {
  await pool.query('delete from master_key_holder where id = $1', [id])
}

/** Returns the instances that reported in the last `withinSeconds`. */
export async function listHolders(pool: Pool, withinSeconds: number): Promise<KeyHolder[]> {
  const result = await pool.query<{
    id: string
    current_key_id: string
    known_key_ids: string[]
  }>(
    `select id, current_key_id, known_key_ids from master_key_holder
      where seen_at > clock_timestamp() - $1 * interval '1 second' order by id`,
    [withinSeconds],
  )
  return result.rows.map((row) => ({
    id: row.id,
    currentKeyId: row.current_key_id,
    knownKeyIds: row.known_key_ids,
  }))
}
