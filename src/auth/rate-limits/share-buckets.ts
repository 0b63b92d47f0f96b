import type { Pool } from 'pg'
import { textArray } from '../../postgres/binary-arrays.ts'
import type { Share, Spending } from './exchange.ts'
import { FULL_SECONDS_MAX } from './token-bucket.ts'

/** The interval between two deletions of unused buckets. */
const CLEAN_INTERVAL_MS = 600_000

/**
 * Keeps the shared buckets in PostgreSQL, by the database's clock.
 *
 * @param pool a pool whose commits do not wait for the disk
 */
export function createShareBuckets(pool: Pool): Share {
  let cleanedAtMs = performance.now()
  return async (spendings) => {
    const levels = await spend(pool, spendings)
    if (performance.now() - cleanedAtMs > CLEAN_INTERVAL_MS) {
      cleanedAtMs = performance.now()
      await deleteIdle(pool)
    }
    return levels
  }
}

/** Spends from all buckets in one statement, by the same rule as TokenBucket. */
async function spend(pool: Pool, spendings: readonly Spending[]) {
  const result = await pool.query<{ name: string; tokens: number }>({
    name: 'rate-bucket-spend',
    // Ordered by name, so that instances cannot deadlock. A statement that waited for a lock has a
    // time before the row's; if it is earlier by more than a second, the clock was set back.
    text: `insert into rate_bucket as b (name, tokens, per_second, burst, at)
      select name, burst - spent, per_second, burst, now()
      from unnest($1::text[], $2::float8[], $3::float8[], $4::float8[])
        as s(name, spent, per_second, burst)
      order by name
      on conflict (name) do update set
        tokens = greatest(-excluded.burst,
          least(excluded.burst, b.tokens + excluded.per_second
            * greatest(0, extract(epoch from excluded.at - b.at)::float8))
          - (excluded.burst - excluded.tokens)),
        per_second = excluded.per_second,
        burst = excluded.burst,
        at = case when excluded.at < b.at - interval '1 second' then excluded.at
          else greatest(b.at, excluded.at) end
      returning name, tokens`,
    values: [
      textArray(spendings.map(({ name }) => name)),
      spendings.map(({ spent }) => spent),
      spendings.map(({ limit }) => limit.perSecond),
      spendings.map(({ limit }) => limit.burst),
    ],
  })
  return new Map(result.rows.map((row) => [row.name, row.tokens]))
}

/** Deletes buckets that are full again by now, even from one burst below zero. */
async function deleteIdle(pool: Pool): Promise<void> {
  await pool.query({
    text: `delete from rate_bucket where name in (
      select name from rate_bucket where at < now() - make_interval(secs => $1)
      order by name for update skip locked)`,
    values: [3 * FULL_SECONDS_MAX],
  })
}
