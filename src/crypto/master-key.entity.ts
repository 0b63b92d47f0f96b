import { defineEntity, p } from '@mikro-orm/core'

/** A master key that may encrypt values in the database. The key itself is never stored. */
export const MasterKeyEntity = defineEntity({
  name: 'MasterKey',
  tableName: 'master_key',
  properties: {
    /** 8 hexadecimal digits. */
    id: p.text().primary(),
    /** A constant text, encrypted under the key; only the same key decrypts it. */
    knownText: p.blob(),
    createdAt: p.datetime(3),
  },
})

/** A running instance: its version, and the keys that it knows. */
export const KeyHolderEntity = defineEntity({
  name: 'KeyHolder',
  tableName: 'master_key_holder',
  properties: {
    id: p.text().primary(),
    /** The key with which the instance encrypts. */
    currentKeyId: p.text(),
    knownKeyIds: p.array(),
    /** The version of Inflow. */
    version: p.text(),
    /** The newest migration that the instance knows. */
    migration: p.text(),
    /** The host, and the id of the process there: `pay-1/4711`. */
    process: p.text(),
    startedAt: p.datetime(3),
    /** The time of the last report, by the clock of the database. An instance that shuts down cleanly deletes its row. */
    seenAt: p.datetime(3),
  },
})
