import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import { LRUCache } from 'lru-cache'
import { Fault } from '../core/errors.ts'
import { textArray } from '../postgres/binary-arrays.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Database } from '../postgres/orm.ts'
import type { Page } from '../postgres/page-token.ts'
import { type Business, BusinessEntity } from './business.entity.ts'

/** @throws Fault not_found when the business does not exist */
export async function getBusiness(database: Database, businessId: string): Promise<Business> {
  return findBusiness(database.orm.em.fork(), businessId)
}

/** Like getBusiness, inside a transaction. */
export async function findBusiness(em: EntityManager, businessId: string): Promise<Business> {
  const business = await em.findOne(BusinessEntity, businessId)
  if (!business) throw businessNotFound()
  return business
}

export function businessNotFound(): Fault {
  return new Fault('not_found', 'There is no such business')
}

/**
 * Returns businesses, newest first: one row more than the page size if there are more.
 *
 * @param only the ids that the caller's token is restricted to; undefined: all
 */
export async function listBusinesses(
  database: Database,
  page: Page,
  only?: Iterable<string>,
): Promise<Business[]> {
  const after = page.after?.[0]
  const id = {
    ...(after !== undefined && { $lt: after }),
    ...(only !== undefined && { $in: [...only] }),
  }
  return database.orm.em.fork().find(BusinessEntity, Object.keys(id).length === 0 ? {} : { id }, {
    orderBy: { id: 'desc' },
    limit: page.limit + 1,
  })
}

const ALIASES_MAX = 10_000

/** How long an alias stays cached. A change takes effect within this time. */
const CACHED_MS = 800

/** Returns the prefix of a business's account names. Throws Fault not_found if it is unknown. */
type AliasOf = (businessId: string) => Promise<string>

/** Caches aliases for less than a second, as UpdateBusiness may change them at any instance. */
export function createAliasOf(orm: MikroORM): AliasOf {
  // The cache uses a monotonic clock: setting the system clock back does not extend an entry.
  const cache = new LRUCache<string, Promise<string>>({ max: ALIASES_MAX, ttl: CACHED_MS })
  const read = async (id: string): Promise<string> => {
    const business = await orm.em.fork().findOne(BusinessEntity, { id }, { fields: ['alias'] })
    if (!business) throw businessNotFound()
    return business.alias
  }
  return (businessId) => {
    const known = cache.get(businessId)
    if (known !== undefined) return known
    const alias = read(businessId)
    cache.set(businessId, alias)
    alias.catch(() => cache.delete(businessId))
    return alias
  }
}

/** The names of the businesses that exist, by id. */
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

/**
 * The businesses whose name or alias begins with a text, in upper or lower case, or whose id the text is; in alphabetical
 * order of the matching value.
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
        rate_limit_burst as "rateLimitBurst", round(date_part('epoch', created_at) * 1000) as "createdAtMs"
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

/** Appended to a prefix, it sorts after every text with this prefix. */
const LAST_CHARACTER = 'chr(1114111)'

const indexed = (column: string) => `lower(${column}) collate "C"`

const matching = (column: string) => `select id, ${indexed(column)} as matching from business
  where ${indexed(column)} >= lower($1) and ${indexed(column)} < lower($1) || ${LAST_CHARACTER}`

const WITH_ID = "select id, '' as matching from business where id = $1"

/** Each part is a range of an index. The order keeps the planner on the index, however many names match. */
const ANY = [
  ...['name', 'alias'].map(
    (column) => `(${matching(column)} order by ${indexed(column)}, id limit $2)`,
  ),
  WITH_ID,
]

/** The few businesses that a caller names or may see are looked up by their ids. */
const OF_IDS = [matching('name'), matching('alias'), WITH_ID].map(
  (part) => `${part} and id = any ($3::text[])`,
)
