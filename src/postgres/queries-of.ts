import type { EntitySchemaWithMeta } from '@mikro-orm/core'
import type { EntityManager, InferKyselyDB, Kysely } from '@mikro-orm/postgresql'
import { CompiledQuery } from 'kysely'
import type { Queryable } from './in-transaction.ts'

/** Columns have the names of the entities' properties, and values are converted to their types. */
const OPTIONS = { columnNamingStrategy: 'property', convertValues: true } as const

/**
 * Typed queries on the tables of some entities. They run in the transaction of `em`, if
 * it has one. Only columns that keep their names are converted: a `bigint` or a time under an alias
 * remains the string of the driver.
 *
 * @example queriesOf<typeof HolidayEntity>(em).selectFrom('holiday').select('name')
 */
export function queriesOf<Entities extends EntitySchemaWithMeta>(
  em: EntityManager,
): Kysely<InferKyselyDB<Entities, typeof OPTIONS>> {
  return em.getKysely(OPTIONS) as Kysely<unknown> as Kysely<InferKyselyDB<Entities, typeof OPTIONS>>
}

/** A statement in the form that the driver takes. */
interface Statement {
  readonly text: string
  readonly values?: readonly unknown[]
}

/** Runs hand-written statements in the transaction of `em`. They are not prepared. */
export function queryableOf(em: EntityManager): Queryable {
  const database = em.getKysely()
  const query = (statement: string | Statement, values: readonly unknown[] = []) => {
    const { text, values: bound = values } =
      typeof statement === 'string' ? { text: statement } : statement
    return database.executeQuery(CompiledQuery.raw(text, [...bound]))
  }
  return { query } as unknown as Queryable
}
