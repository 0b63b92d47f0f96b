import { expect, test } from 'vitest'
import { encryptedColumn } from '../../src/crypto/encrypted-rows.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import {
  decryptNotification,
  encryptNotification,
  NOTIFICATION_COLUMN,
} from '../../src/notifications/raw-notification.ts'
import { insertNotifications } from '../../src/notifications/store.ts'
import { useDatabase } from '../support/database.ts'
import { MASTER_KEY } from '../support/service.ts'

const db = useDatabase(2)

const raw = { headers: {}, rawBody: Buffer.from('paid'), pathSecret: '' }

test('re-encrypts the notifications that are not under the current key, in pages', async () => {
  const { durablePool } = db.database
  const table = encryptedColumn(durablePool, NOTIFICATION_COLUMN)
  const previous = createEncrypter(MASTER_KEY)
  expect(await table.matchesKeys(previous)).toBeUndefined()
  const rows = ['ntf_1', 'ntf_2', 'ntf_3'].map((id) => ({
    id,
    bank: '9PSB' as const,
    bodyDigest: Buffer.from(id),
    receivedAtMs: 0,
    rawEncrypted: encryptNotification(previous, id, raw),
    bankKey: id,
    ...{ accountNumber: '', sessionId: '', amountMinor: 0n },
    nextTryAtMs: 0,
  }))
  await insertNotifications(durablePool, rows)
  await durablePool.query(
    "update bank_notification set raw_encrypted = 'unreadable' where id = 'ntf_3'",
  )
  expect(await table.matchesKeys(previous)).toBe(true)
  const next = createEncrypter(Buffer.alloc(32, 9), [MASTER_KEY])
  const page = { scanned: 2, skipped: 0, unreadable: [], next: 'ntf_2' }
  expect(await table.reEncrypt(next, '', 2)).toEqual({ ...page, reEncrypted: 2 })
  expect(await table.reEncrypt(next, '', 2)).toEqual({ ...page, reEncrypted: 0 })
  const { rows: stored } = await durablePool.query(
    "select raw_encrypted from bank_notification where id = 'ntf_2'",
  )
  const current = createEncrypter(Buffer.alloc(32, 9))
  expect(decryptNotification(current, 'ntf_2', stored[0].raw_encrypted)).toEqual(raw)
  const last = { scanned: 1, reEncrypted: 0, skipped: 0, unreadable: ['ntf_3'], next: 'ntf_3' }
  expect(await table.reEncrypt(next, 'ntf_2', 2)).toEqual(last)
  expect((await table.reEncrypt(next, 'ntf_3', 2)).next).toBeUndefined()
})
