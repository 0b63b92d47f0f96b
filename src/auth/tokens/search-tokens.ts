import { epochMs } from '../../postgres/epoch-ms.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'

/** A token, as a search shows it. */
export interface FoundToken {
  readonly id: string
  readonly name: string
  readonly prefix: string
  readonly createdAtMs: number
  readonly revoked: boolean
}

/** The tokens whose ids are in a range, newest first. */
export async function searchTokens(
  on: Queryable,
  { first, last }: { readonly first: string; readonly last: string },
  limit: number,
): Promise<readonly FoundToken[]> {
  const { rows } = await on.query<FoundToken>(
    `select id, name, prefix, ${epochMs('created_at')} as "createdAtMs",
        revoked_at is not null as revoked
      from internal_token where id >= $1 and id <= $2 order by id desc limit $3`,
    [first, last, limit],
  )
  return rows
}
