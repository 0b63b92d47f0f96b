import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import {
  auditHash,
  EMPTY_LOG,
  entryText,
  headText,
  isAuthenticHead,
  NO_HASH,
} from '../../src/auth/audit/audit-hash.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'

const entry = {
  number: 7n,
  atMs: 1_763_600_000_000,
  actorKind: 'token',
  actorId: 'tok_1',
  actorName: 'Ọlá',
  address: '203.0.113.7',
  requestId: 'req_1',
  action: 'key.create',
  targetKind: 'key',
  targetId: 'key_1',
  businessId: 'biz_1',
  details: '{"name":"x"}',
  previousHash: NO_HASH,
}

describe('the hash of an audit entry', () => {
  test('is SHA-256 of its fields, each with its length in bytes', () => {
    const text =
      '14:inflow-audit-1,1:7,13:1763600000000,5:token,5:tok_1,6:Ọlá,11:203.0.113.7,5:req_1,' +
      `10:key.create,3:key,5:key_1,5:biz_1,12:{"name":"x"},64:${NO_HASH},`
    expect(auditHash(entry)).toBe(createHash('sha256').update(text).digest('hex'))
    expect(NO_HASH).toMatch(/^0{64}$/)
  })

  test('differs if any field does, or if text moves from one field to the next', () => {
    const changed = Object.keys(entry).map((field) => ({ ...entry, [field]: '1' }))
    const moved = { ...entry, actorId: 'tok_', actorName: '1Ọlá' }
    const hashes = [entry, ...changed, moved].map(auditHash)
    expect(new Set(hashes).size).toBe(hashes.length)
  })
})

describe('the MAC of the head of the audit log', () => {
  const keys = createEncrypter(Buffer.alloc(32, 1))
  const hash = auditHash(entry)
  const head = { number: 7n, hash, mac: keys.mac(headText(7n, hash)) }

  test('is authentic for its own number and hash alone', () => {
    expect(isAuthenticHead(keys, head)).toBe(true)
    expect(isAuthenticHead(keys, { ...head, number: 8n })).toBe(false)
    expect(isAuthenticHead(keys, { ...head, hash: NO_HASH })).toBe(false)
    expect(isAuthenticHead(keys, { ...head, mac: Buffer.alloc(0) })).toBe(false)
  })

  test('is not that of an entry, so that the end of the log cannot be cut off', () => {
    expect(isAuthenticHead(keys, { ...head, mac: keys.mac(entryText(7n, hash)) })).toBe(false)
    expect(EMPTY_LOG).toBe(headText(0n, NO_HASH))
  })
})
