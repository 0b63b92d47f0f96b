import { epochMs } from '../postgres/epoch-ms.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Business } from './business.entity.ts'

/** A secret key, as a search shows it. */
export interface FoundKey {
  readonly id: string
  readonly businessId: string
  readonly live: boolean
  readonly prefix: string
  readonly createdAtMs: number
  readonly revoked: boolean
}

/**
 * The businesses whose name or alias begins with a text, in upper or lower case, or whose id it is; in alphabetical
 * order of what matches.
 *
 * @param businessIds the ids to choose from; undefined: all
 */
export async function searchBusinesses(
  on: Queryable,
  text: string,
  businessIds: readonly string[] | undefined,
  limit: number,
): Promise<readonly Business[]> {
  const [parts, values] = businessIds === undefined ? [ANY, []] : [OF_IDS, [businessIds]]
  const { rows } = await on.query<BusinessRow>(
    `select id, name, alias, rate_limit_per_second as "rateLimitPerSecond",
        rate_limit_burst as "rateLimitBurst", ${epochMs('created_at')} as "createdAtMs"
      from (
        select id as found_id, min(matching) as matching from (${parts.join(' union all ')}) matches
        group by id order by min(matching), id limit $2
      ) found cross join lateral (select * from business where id = found_id offset 0) business
      order by matching, id`,
    [text, limit, ...values],
  )
  return rows.map(({ createdAtMs, ...row }) => ({ ...row, createdAt: new Date(createdAtMs) }))
}

type BusinessRow = Omit<Business, 'createdAt'> & { readonly createdAtMs: number }

/** Sorts after every text that begins with another. */
const LAST_CHARACTER = 'chr(1114111)'

const indexed = (column: string) => `lower(${column}) collate "C"`

const matching = (column: string) => `select id, ${indexed(column)} as matching from business
  where ${indexed(column)} >= lower($1) and ${indexed(column)} < lower($1) || ${LAST_CHARACTER}`

const WITH_ID = "select id, '' as matching from business where id = $1"

/** Each part is a range of an index. The order keeps the planner on it, however many begin so. */
const ANY = [
  ...['name', 'alias'].map(
    (column) => `(${matching(column)} order by ${indexed(column)}, id limit $2)`,
  ),
  WITH_ID,
]

/** The few that a caller names or may see are looked up by their ids. */
const OF_IDS = [matching('name'), matching('alias'), WITH_ID].map(
  (part) => `${part} and id = any ($3::text[])`,
)

/**
 * The keys whose ids are in a range, newest first.
 *
 * @param businessIds undefined: all
 */
export async function searchKeys(
  on: Queryable,
  { first, last }: { readonly first: string; readonly last: string },
  businessIds: readonly string[] | undefined,
  limit: number,
): Promise<readonly FoundKey[]> {
  const { rows } = await on.query<FoundKey>(
    `select id, business_id as "businessId", live, prefix, ${epochMs('created_at')} as "createdAtMs",
        revoked_at is not null as revoked
      from api_key where id >= $1 and id <= $2 and ($3::text[] is null or business_id = any ($3))
      order by id desc limit $4`,
    [first, last, businessIds ?? null, limit],
  )
  return rows
}
