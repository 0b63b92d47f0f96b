import { describe, expect, test } from 'vitest'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import {
  decryptNotification,
  encryptNotification,
} from '../../src/notifications/raw-notification.ts'

const before = createEncrypter(Buffer.alloc(32, 1))
const notification = {
  headers: {
    'x-signature': 'a-genuine-signature',
    authorization: 'Basic x',
    'content-type': 'application/json',
  },
  rawBody: Buffer.from([0, 255, 10, 123]),
  pathSecret: 'path',
}

describe('a stored notification', () => {
  test('is read as it was received, byte by byte', () => {
    const encrypted = encryptNotification(before, 'ntf_1', notification)
    expect(decryptNotification(before, 'ntf_1', encrypted)).toEqual(notification)
    expect(encrypted.includes('a-genuine-signature')).toBe(false)
  })

  test('keeps no header that is not of the bank’s application', () => {
    const hops = { cookie: 'a', host: 'b', connection: 'c', accept: 'd', 'accept-encoding': 'e' }
    const received = { ...notification, headers: { ...hops, ...notification.headers } }
    const encrypted = encryptNotification(before, 'ntf_1', received)
    expect(decryptNotification(before, 'ntf_1', encrypted)).toEqual(notification)
  })

  test('is read under its own id alone', () => {
    const encrypted = encryptNotification(before, 'ntf_1', notification)
    expect(() => decryptNotification(before, 'ntf_2', encrypted)).toThrow()
  })
})
