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
  const columns = 'id, name, alias, created_at'
  const allowed = '($3::text[] is null or id = any ($3))'
  const beginning = (column: string) =>
    `(select ${columns} from business where lower(${column}) collate "C" like $2 and ${allowed} limit $4)`
  // An array of the few that a token may see is looked up by id; all others by their first characters.
  const { rows } = await on.query<FoundBusiness>(
    `select id, name, alias, ${epochMs('created_at')} as "createdAtMs" from (
        (select ${columns} from business where id = $1 and ${allowed})
        union ${beginning('name')} union ${beginning('alias')}
      ) found order by id desc limit $4`,
    [text, `${text.toLowerCase().replaceAll(/[\\%_]/g, '\\$&')}%`, businessIds ?? null, limit],
  )
  return rows
}

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
