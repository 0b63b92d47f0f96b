import type { InferEntity } from '@mikro-orm/core'
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import { sql } from 'kysely'
import type { Logger } from 'pino'
import type { Clock } from '../core/clock.ts'
import { createLoop } from '../core/loop.ts'
import { queriesOf } from '../postgres/queries-of.ts'
import { checkMasterKey, MasterKeyError, registerMasterKey } from './check-master-key.ts'
import type { EncryptedRows } from './encrypted-rows.ts'
import type { Encrypter, KeyRing } from './encryption.ts'
import { KeyHolderEntity } from './master-key.entity.ts'

/** A running instance. */
export type KeyHolder = Omit<InferEntity<typeof KeyHolderEntity>, 'seenAt' | 'startedAt'>

/** How often an instance reports which keys it knows. */
const INTERVAL_MS = 10_000

/** An instance counts as gone after this time without a report; a few reports may be lost. */
const HEARTBEAT_TIMEOUT_SECONDS = 45

/**
 * How long after a report an instance encrypts with keys that it read from files: shorter than the time above. An instance that
 * was suspended for longer reads the files again first, because a rotation may have dropped its key.
 */
const ENCRYPTS_MS = 40_000

interface Options {
  /** The names by which operators know the instance. */
  readonly instance: Pick<KeyHolder, 'id' | 'version' | 'migration' | 'process'>
  readonly orm: MikroORM
  readonly encrypter: Encrypter
  readonly tables: readonly EncryptedRows[]
  readonly log: Logger
  /** The clock of this machine, which goes on while the process is suspended. */
  readonly clock: Clock
  /** Reads the key files again; a key rotation changes them while the service runs. */
  readonly reread: (() => Promise<KeyRing>) | undefined
  /** Called at the start, before the first key of the database is registered. */
  readonly onFirstKey: () => Promise<void>
}

/** Reports to the database that this instance runs, and which master keys it knows. */
export interface KeyHeartbeat {
  /** @throws MasterKeyError if the keys do not match the database */
  start(): Promise<void>
  stop(): Promise<void>
}

/**
 * A key rotation must not encrypt with a key that a running instance does not know, and must not drop a
 * key with which an instance still encrypts. So each instance reports its keys every few seconds.
 */
export function createKeyHeartbeat({
  instance,
  orm,
  encrypter,
  tables,
  log,
  clock,
  reread,
  onFirstKey,
}: Options): KeyHeartbeat {
  /** Undefined: the start has not reported yet. */
  let reportedAtMs: number | undefined
  const report = async (): Promise<void> => {
    const { keyId: currentKeyId, knownKeyIds } = encrypter
    const nowMs = clock.now()
    await upsertHolder(orm.em.fork(), {
      ...instance,
      currentKeyId,
      knownKeyIds: [...knownKeyIds],
    })
    reportedAtMs = nowMs
  }
  /** Otherwise the keys are read again at once, so that a clock that was set stops nothing for long. */
  const mayEncrypt = (): boolean => {
    if (reportedAtMs === undefined) return true
    if (Math.abs(clock.now() - reportedAtMs) < ENCRYPTS_MS) return true
    loop.wake()
    return false
  }
  const loop = createLoop({
    name: 'master key',
    log,
    everyMs: INTERVAL_MS,
    async turn() {
      try {
        if (reread) encrypter.use(await reread(), mayEncrypt)
        // Report before the check, because a rotation must wait for an instance that lacks a key.
        await report()
        await checkMasterKey(orm, encrypter, tables)
        await registerMasterKey(orm, encrypter)
      } catch (error) {
        if (!(error instanceof MasterKeyError)) throw error
        log.error({ err: error }, 'the master keys do not match the database')
      }
      return undefined
    },
  })
  return {
    async start() {
      if (reread) encrypter.use(await reread(), mayEncrypt)
      if (await checkMasterKey(orm, encrypter, tables)) await onFirstKey()
      await registerMasterKey(orm, encrypter)
      await report()
      loop.start(INTERVAL_MS)
    },
    async stop() {
      await loop.stop()
      // If the database is unavailable, the report expires by itself.
      await deleteHolder(orm.em.fork(), instance.id).catch(() => undefined)
    },
  }
}

const NOW = sql<Date>`clock_timestamp()`

/** Records that an instance runs, and deletes instances that have not reported for a day. */
export async function upsertHolder(em: EntityManager, holder: KeyHolder): Promise<void> {
  const queries = queriesOf<typeof KeyHolderEntity>(em)
  await queries
    .deleteFrom('master_key_holder')
    .where('seenAt', '<', sql<Date>`clock_timestamp() - interval '1 day'`)
    .execute()
  const row = { ...holder, seenAt: NOW }
  await queries
    .insertInto('master_key_holder')
    .values({ ...row, startedAt: NOW })
    .onConflict((conflict) => conflict.column('id').doUpdateSet(row))
    .execute()
}

export async function deleteHolder(em: EntityManager, id: string): Promise<void> {
  await em.nativeDelete(KeyHolderEntity, { id })
}

/** A process that serves this database. */
export type RunningInstance = Pick<KeyHolder, 'process' | 'version' | 'migration'>

/** The processes that have reported recently. A killed process still counts for 45 s. */
export function listInstances(orm: MikroORM): Promise<KeyHolder[]> {
  return queriesOf<typeof KeyHolderEntity>(orm.em.fork())
    .selectFrom('master_key_holder')
    .select(['id', 'currentKeyId', 'knownKeyIds', 'version', 'migration', 'process'])
    .where(
      'seenAt',
      '>',
      sql<Date>`clock_timestamp() - ${HEARTBEAT_TIMEOUT_SECONDS} * interval '1 second'`,
    )
    .orderBy('id')
    .execute()
}
