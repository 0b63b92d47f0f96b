import { textArray } from '../postgres/binary-arrays.ts'
import type { Queryable } from '../postgres/in-transaction.ts'

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
