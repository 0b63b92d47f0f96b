import type { EntitySchema } from '@mikro-orm/core'
import type { EntityManager } from '@mikro-orm/postgresql'

/**
 * Locks a row against changes until the transaction ends. Unlike the ORM's lock (FOR UPDATE), it lets
 * others insert rows that refer to it.
 */
export async function lockRow(em: EntityManager, entity: EntitySchema, id: string): Promise<void> {
  const { tableName } = em.getMetadata().get(entity)
  await em.execute(`select from "${tableName}" where id = ? for no key update`, [id])
}
