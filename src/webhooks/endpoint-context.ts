import type { MikroORM } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import type { Clock } from '../clock.ts'
import type { Sealer } from '../secrets.ts'
import type { UrlRules } from './endpoint-url.ts'

/** What the use cases of endpoints and deliveries need. */
export interface EndpointContext {
  readonly orm: MikroORM
  readonly pool: Pool
  readonly sealer: Sealer
  readonly clock: Clock
  readonly rules: UrlRules
  /** Called after a commit that added an event. */
  readonly published: () => void
  /** Called when deliveries have become due. */
  readonly due: () => void
}
