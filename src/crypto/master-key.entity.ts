import { defineEntity, p } from '@mikro-orm/core'

/** A master key that something in the database may be made with. It never holds the key. */
export const MasterKeyEntity = defineEntity({
  name: 'MasterKey',
  tableName: 'master_key',
  properties: {
    /** 8 hexadecimal digits. */
    id: p.text().primary(),
    /** A text that everybody knows, encrypted: who opens it has the key. */
    knownText: p.blob(),
    createdAt: p.datetime(3),
  },
})

/** A running instance, and the keys that it has. */
export const KeyHolderEntity = defineEntity({
  name: 'KeyHolder',
  tableName: 'master_key_holder',
  properties: {
    id: p.text().primary(),
    /** The one that it encrypts with. */
    currentKeyId: p.text(),
    knownKeyIds: p.array(),
    /** By the database's clock. An instance that ends well removes itself. */
    seenAt: p.datetime(3),
  },
})
