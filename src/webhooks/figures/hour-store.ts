import type { Pool } from 'pg'
import {
  bigintArray,
  booleanArray,
  textArray,
  timestampArray,
} from '../../postgres/binary-arrays.ts'
import { epochMs } from '../../postgres/epoch-ms.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'

/** The attempts of a business and mode that ended in one hour. */
export interface HourCounts {
  /** Empty: of all businesses. */
  readonly businessId: string
  readonly live: boolean
  /** When the hour begins. */
  readonly hourMs: number
  attempts: number
  delivered: number
  failed: number
  /** Deliveries by the bucket of their delay. */
  readonly delays: number[]
}

/** Adds counts to the stored ones. */
export async function addHours(pool: Pool, rows: readonly HourCounts[]): Promise<void> {
  await pool.query({
    name: 'webhook-hour-add',
    // Always in the same order, so that two instances cannot deadlock.
    text: `insert into webhook_hour as h
        (business_id, live, hour, attempts, delivered, failed, delays)
      select business_id, live, hour, attempts, delivered, failed, string_to_array(delays, ',')::int[]
      from unnest($1::text[], $2::boolean[], $3::timestamptz[], $4::int8[], $5::int8[], $6::int8[],
        $7::text[]) as i(business_id, live, hour, attempts, delivered, failed, delays)
      order by business_id, live, hour
      on conflict (business_id, live, hour) do update set
        attempts = h.attempts + excluded.attempts, delivered = h.delivered + excluded.delivered,
        failed = h.failed + excluded.failed,
        delays = array(select d.stored + d.added
          from unnest(h.delays, excluded.delays) with ordinality as d(stored, added, bucket)
          order by d.bucket)`,
    values: [
      textArray(rows.map((row) => row.businessId)),
      booleanArray(rows.map((row) => row.live)),
      timestampArray(rows.map((row) => row.hourMs)),
      bigintArray(rows.map((row) => BigInt(row.attempts))),
      bigintArray(rows.map((row) => BigInt(row.delivered))),
      bigintArray(rows.map((row) => BigInt(row.failed))),
      textArray(rows.map((row) => row.delays.join(','))),
    ],
  })
}

/** The attempts of one hour. */
export interface WebhookHour {
  readonly hourMs: number
  readonly attempts: number
  readonly delivered: number
  readonly failed: number
  readonly delays: readonly number[]
}

/**
 * The stored hours of some businesses in one mode: several of an hour, if there are several businesses.
 *
 * @param businessIds `['']`: all together
 * @param periods each from its first hour to its last one
 */
export async function readWebhookHours(
  on: Queryable,
  businessIds: readonly string[],
  live: boolean,
  periods: readonly { readonly fromMs: number; readonly toMs: number }[],
): Promise<readonly WebhookHour[]> {
  const { rows } = await on.query<WebhookHour>({
    name: 'webhook-hour-read',
    text: `select ${epochMs('h.hour')} as "hourMs", h.attempts::float8, h.delivered::float8,
        h.failed::float8, h.delays
      from unnest($3::timestamptz[], $4::timestamptz[]) as p(first, last)
      cross join unnest($1::text[]) as b(id)
      cross join lateral (select * from webhook_hour where business_id = b.id and live = $2
        and hour >= p.first and hour <= p.last offset 0) h`,
    values: [
      textArray(businessIds),
      live,
      timestampArray(periods.map(({ fromMs }) => fromMs)),
      timestampArray(periods.map(({ toMs }) => toMs)),
    ],
  })
  return rows
}

/** @returns how many rows it deleted */
export async function deleteOldHours(
  on: Queryable,
  beforeMs: number,
  limit: number,
): Promise<number> {
  const { rowCount } = await on.query({
    name: 'webhook-hour-delete',
    text: `delete from webhook_hour where ctid = any (array(
      select ctid from webhook_hour where hour < $1 limit $2))`,
    values: [new Date(beforeMs), limit],
  })
  return rowCount ?? 0
}
