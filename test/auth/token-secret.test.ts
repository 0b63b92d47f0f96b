import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { hashSecret, idIn, newSecret } from '../../src/auth/token-secret.ts'

const TOKEN_ID = 'tok_01kah2cdefghjkmnpqrstvwxyz'
const RANDOM = 'A-Za-z0-9_-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'.slice(0, 43)
const UNIQUE = TOKEN_ID.slice(4)

describe('the secret of a token', () => {
  test('names its token, is random, and is stored as a hash and its beginning', () => {
    const { secret, prefix, secretHash } = newSecret('tok', TOKEN_ID)
    expect(secret).toMatch(new RegExp(`^it_${UNIQUE}_[\\w-]{43}$`))
    expect(idIn('tok', secret)).toBe(TOKEN_ID)
    expect(prefix).toBe(`it_${UNIQUE.slice(0, 10)}`)
    expect(secretHash).toEqual(createHash('sha256').update(secret).digest())
    expect(hashSecret(secret)).toEqual(secretHash)
    expect(newSecret('tok', TOKEN_ID).secret).not.toBe(secret)
  })

  test.each([
    '',
    TOKEN_ID,
    `it_${UNIQUE}_`,
    `it_${UNIQUE}_${RANDOM.slice(1)}`,
    `it_${UNIQUE}_${RANDOM}A`,
    `it_${UNIQUE.slice(1)}_${RANDOM}`,
    `it_${UNIQUE.toUpperCase()}_${RANDOM}`,
    `it_${UNIQUE}_${RANDOM.slice(1)}+`,
    ` it_${UNIQUE}_${RANDOM}`,
    `it_${UNIQUE}_${RANDOM}\n`,
    `sk_${UNIQUE}_${RANDOM}`,
  ])('is not of the form "%s"', (secret) => {
    expect(idIn('tok', secret)).toBeUndefined()
    expect(idIn('tok', `it_${UNIQUE}_${RANDOM}`)).toBe(TOKEN_ID)
  })
})
