import type { MikroORM } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import type { Clock } from '../../core/clock.ts'
import type { Encrypter } from '../../crypto/encryption.ts'
import type { UrlRules } from '../sender/address-guard.ts'

/** The dependencies of the endpoint and delivery use cases. */
export interface EndpointContext {
  readonly orm: MikroORM
  readonly pool: Pool
  readonly encrypter: Encrypter
  readonly clock: Clock
  readonly rules: UrlRules
  /** Called after a commit that added an event. */
  readonly onCommit: () => void
  /** Called when deliveries have become due. */
  readonly onDue: () => void
}
