import type { Pool } from 'pg'
import type { Logger } from 'pino'
import { createLoop } from '../core/loop.ts'
import { checkMasterKey, MasterKeyError, registerMasterKey } from './check-master-key.ts'
import type { EncryptedRows } from './encrypted-rows.ts'
import type { Encrypter, KeyRing } from './encryption.ts'
import { deleteHolder, touchHolder } from './store.ts'

/** How often an instance says which keys it has. */
const EVERY_MS = 10_000

/** After this time without a word an instance counts as gone: some of them may be lost. */
export const GONE_AFTER_SECONDS = 45

interface Options {
  /** Of the instance. */
  readonly id: string
  readonly pool: Pool
  readonly encrypter: Encrypter
  readonly tables: readonly EncryptedRows[]
  readonly log: Logger
  /** Where keys are kept in files, which a rotation changes while the service runs. */
  readonly reread: (() => Promise<KeyRing>) | undefined
}

/** Tells the database which master keys this instance has, for as long as it runs. */
export interface KnownKeys {
  /** @throws MasterKeyError when the keys do not fit the database */
  start(): Promise<void>
  stop(): Promise<void>
}

/**
 * A rotation must not encrypt with a key that a running instance does not know, nor may a key be
 * forgotten that one still encrypts with. So each says what it has, every few seconds.
 */
export function createKnownKeys({ id, pool, encrypter, tables, log, reread }: Options): KnownKeys {
  const check = async (): Promise<void> => {
    await checkMasterKey(pool, encrypter, tables)
    await registerMasterKey(pool, encrypter)
  }
  const touch = (): Promise<void> => {
    const { keyId: currentKeyId, knownKeyIds } = encrypter
    return touchHolder(pool, { id, currentKeyId, knownKeyIds })
  }
  const loop = createLoop({
    name: 'master key',
    log,
    everyMs: EVERY_MS,
    async turn() {
      try {
        if (reread) encrypter.use(await reread())
        // Above all an instance that lacks a key has to be heard of: a rotation must wait for it.
        await touch()
        await check()
      } catch (error) {
        if (!(error instanceof MasterKeyError)) throw error
        log.error({ err: error }, 'the master key could not be confirmed')
      }
      return undefined
    },
  })
  return {
    async start() {
      if (reread) encrypter.use(await reread())
      await check()
      await touch()
      loop.start(EVERY_MS)
    },
    async stop() {
      await loop.stop()
      // Without the database, it is forgotten for not being heard of.
      await deleteHolder(pool, id).catch(() => undefined)
    },
  }
}
