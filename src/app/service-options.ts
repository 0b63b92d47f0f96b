import type { Logger } from 'pino'
import type { Config } from '../config/config.ts'
import type { Clock } from '../core/clock.ts'
import type { KeyRing } from '../crypto/encryption.ts'
import type { Database } from '../postgres/orm.ts'
import type { Tls } from '../server/tls.ts'

/** What a service is started with. */
export interface ServiceOptions {
  readonly config: Config
  readonly database: Database
  /** 32 bytes. */
  readonly masterKey: Buffer
  /** The other master keys that are known: see KeyRing. */
  readonly otherKeys?: readonly Buffer[]
  /** Reads the key files again, which a rotation changes while the service runs. */
  readonly rereadKeys?: () => Promise<KeyRing>
  readonly adminToken: string | undefined
  readonly clock: Clock
  /** How often the clock is compared with the database's; undefined: every ten seconds. */
  readonly clockEveryMs?: number
  readonly log: Logger
  /** Whether webhooks may go to this machine over http, as they may in embedded mode. */
  readonly localWebhooks: boolean
  /** For both servers; undefined: they use plain text. */
  readonly tls?: Tls | undefined
}
