import { epochMs } from '../postgres/epoch-ms.ts'
import type { Queryable } from '../postgres/in-transaction.ts'

/** A business, as a search shows it. */
export interface FoundBusiness {
  readonly id: string
  readonly name: string
  readonly alias: string
  readonly createdAtMs: number
}

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
 * The business of an id, and those whose name or alias begins with a text, in any case.
 *
 * @param businessIds undefined: all
 */
export async function searchBusinesses(
  on: Queryable,
  text: string,
  businessIds: readonly string[] | undefined,
  limit: number,
): Promise<readonly FoundBusiness[]> {
  const values: unknown[] = [text, `${text.toLowerCase().replaceAll(/[\\%_]/g, '\\$&')}%`, limit]
  if (businessIds !== undefined) values.push(businessIds)
  const { rows } = await on.query<FoundBusiness>(
    `select id, name, alias, ${epochMs('created_at')} as "createdAtMs"
      from (${businessIds === undefined ? ANY_BUSINESS : OWN_BUSINESSES}) found
      order by id desc limit $3`,
    values,
  )
  return rows
}

const COLUMNS = 'id, name, alias, created_at'

/** The order, which is that of the index, keeps the planner on it, however many begin so. */
const beginning = (column: string) =>
  `(select ${COLUMNS} from business where lower(${column}) collate "C" like $2
    order by lower(${column}) collate "C", id limit $3)`

const ANY_BUSINESS = `(select ${COLUMNS} from business where id = $1)
  union ${beginning('name')} union ${beginning('alias')}`

/** The few that a token may see are looked up by their ids. */
const OWN_BUSINESSES = `select ${COLUMNS} from business where id = any ($4::text[])
  and (id = $1 or lower(name) like $2 or lower(alias) like $2)`

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
