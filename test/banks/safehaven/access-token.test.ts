import { describe, expect, test } from 'vitest'
import { generateSafeHavenCredentials } from '../../../src/banks/safehaven/fake/tokens.ts'
import { signal, useSafeHaven } from './fixture.ts'

const haven = useSafeHaven()
const { start, connector, order } = haven

describe('tokens', () => {
  test('are fetched once for concurrent calls, and renewed once after a rejection', async () => {
    const bank = await start()
    const { openAccount } = connector({}, { bank })
    const openMany = () =>
      Promise.all(Array.from({ length: 20 }, () => openAccount(order(), signal)))
    expect(new Set((await openMany()).map(({ kind }) => kind))).toEqual(new Set(['opened']))
    expect(bank.requests.token).toBe(1)
    bank.expireTokens()
    expect(new Set((await openMany()).map(({ kind }) => kind))).toEqual(new Set(['opened']))
    expect(bank.requests.token).toBe(2)
  })

  test('are renewed before they expire', async () => {
    const times = { now: Date.now() }
    const clock = { now: () => times.now }
    const bank = await start({ tokenSeconds: 600, clock })
    const { openAccount } = connector({}, { bank, clock })
    await openAccount(order(), signal)
    times.now += 500_000
    await openAccount(order(), signal)
    expect(bank.requests.token).toBe(1)
    times.now += 50_000
    await openAccount(order(), signal)
    expect(bank.requests).toEqual(expect.objectContaining({ token: 2, create: 3 }))
  })

  test('are requested as JSON if configured', async () => {
    const environment = { BANK_SAFEHAVEN_TOKEN_FORM: 'json' }
    expect((await connector(environment).openAccount(order(), signal)).kind).toBe('opened')
  })

  test('come with the client id for calls; a rejected token is renewed once', async () => {
    const environment = { BANK_SAFEHAVEN_CLIENT_ID: 'another' }
    const result = await connector(environment).openAccount(order(), signal)
    expect(result).toEqual({
      kind: 'unavailable',
      cause: 'no token: 401 Invalid client.',
      refusal: 'access',
    })
    const bank = await start()
    bank.faults.add('create', 'statusCode 403', 2)
    const rejected = await connector({}, { bank }).openAccount(order(), signal)
    expect(rejected).toMatchObject({ kind: 'unavailable', cause: '403 Fault' })
    expect(bank.requests).toMatchObject({ token: 2, create: 2 })
  })

  test('are not issued for another key, audience or issuer', async () => {
    const other = await start({ credentials: generateSafeHavenCredentials() })
    const { BANK_SAFEHAVEN_PRIVATE_KEY } = other.environment
    for (const wrong of [
      { BANK_SAFEHAVEN_PRIVATE_KEY },
      { BANK_SAFEHAVEN_AUDIENCE: 'https://other.example' },
      { BANK_SAFEHAVEN_COMPANY_URL: 'https://other.example' },
    ]) {
      const result = await connector(wrong).openAccount(order(), signal)
      expect(result).toMatchObject({ kind: 'unavailable' })
    }
  })
})
