import type { MikroORM } from '@mikro-orm/postgresql'
import type { Clock } from '../clock.ts'
import type { Sealer } from '../secrets.ts'
import type { UrlRules } from './endpoint-url.ts'

/** What the use cases of endpoints need. */
export interface EndpointContext {
  readonly orm: MikroORM
  readonly sealer: Sealer
  readonly clock: Clock
  readonly rules: UrlRules
}
