import { textArray } from '../postgres/binary-arrays.ts'
import type { Queryable } from '../postgres/in-transaction.ts'

/** Sorts after every text that begins with another. */
const LAST_CHARACTER = 'chr(1114111)'

/**
 * The ids of the businesses whose name or alias begins with a text, in upper or lower case, or whose id it is; in
 * alphabetical order of what matches.
 *
 * @param only the ids to choose from; undefined: all
 */
export async function findByPrefix(
  client: Queryable,
  text: string,
  limit: number,
  only: readonly string[] | undefined,
): Promise<readonly string[]> {
  // Each part is a range of an index.
  const prefixed = (
    column: string,
  ) => `(select id, lower(${column}) collate "C" as matching from business
      where lower(${column}) collate "C" >= lower($1) and lower(${column}) collate "C" < lower($1) || ${LAST_CHARACTER}
        ${only === undefined ? '' : 'and id = any ($3::text[])'}
      order by lower(${column}) collate "C", id limit $2)`
  const { rows } = await client.query<{ id: string }>(
    `select id from (
        ${prefixed('name')} union all ${prefixed('alias')}
        union all (select id, '' from business where id = $1 ${only === undefined ? '' : 'and id = any ($3::text[])'})
      ) found group by id order by min(matching), id limit $2`,
    only === undefined ? [text, limit] : [text, limit, only],
  )
  return rows.map(({ id }) => id)
}

/** The names of those of some businesses that exist, by id. */
export async function findBusinessNames(
  client: Queryable,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const { rows } = await client.query<{ id: string; name: string }>({
    name: 'business-names',
    text: 'select id, name from business where id = any ($1::text[])',
    values: [textArray(ids)],
  })
  return new Map(rows.map(({ id, name }) => [id, name]))
}
