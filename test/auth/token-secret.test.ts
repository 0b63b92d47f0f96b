import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { hashToken, newTokenSecret, tokenIdOf } from '../../src/auth/tokens/token-secret.ts'

const TOKEN_ID = 'tok_01kah2cdefghjkmnpqrstvwxyz'
const RANDOM = 'A-Za-z0-9_-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'.slice(0, 43)
const UNIQUE = TOKEN_ID.slice(4)

describe('the secret of a token', () => {
  test('names its token, is random, and is stored as a hash and its beginning', () => {
    const { secret, prefix, secretHash } = newTokenSecret(TOKEN_ID)
    expect(secret).toMatch(new RegExp(`^it_${UNIQUE}_[\\w-]{43}$`))
    expect(tokenIdOf(secret)).toBe(TOKEN_ID)
    expect(prefix).toBe(`it_${UNIQUE.slice(0, 10)}`)
    expect(secretHash).toEqual(createHash('sha256').update(secret).digest())
    expect(hashToken(secret)).toEqual(secretHash)
    expect(newTokenSecret(TOKEN_ID).secret).not.toBe(secret)
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
    expect(tokenIdOf(secret)).toBeUndefined()
    expect(tokenIdOf(`it_${UNIQUE}_${RANDOM}`)).toBe(TOKEN_ID)
  })
})
