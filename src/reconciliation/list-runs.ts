import type { EntityManager } from '@mikro-orm/postgresql'
import { RunEntity } from './run.entity.ts'

/** The runs of every bank: one for each scope. */
export function listRuns(em: EntityManager) {
  return em.find(RunEntity, {}, { orderBy: { bank: 'asc', scope: 'asc' } })
}
