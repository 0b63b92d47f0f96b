import type { MikroORM } from '@mikro-orm/postgresql'
import { HEARTBEAT_TIMEOUT_SECONDS } from './key-heartbeat.ts'
import { type KeyHolder, listHolders } from './store.ts'

/** A process that serves this database. */
export type RunningInstance = Pick<KeyHolder, 'process' | 'version' | 'migration'>

/** The processes that have reported lately; one that was killed counts for 45 s more. */
export function listInstances(orm: MikroORM): Promise<readonly RunningInstance[]> {
  return listHolders(orm.em.fork(), HEARTBEAT_TIMEOUT_SECONDS)
}
