import { beforeAll, describe, expect, test } from 'vitest'
import { creation } from '../protocols/rest/rest.ts'
import { useFakeBank } from '../support/fake-bank.ts'
import { useService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'
import { data, openByKey, type ScopedBusiness, scopedBusiness } from './scene.ts'

const HOUR_MS = 3_600_000

const bank = useFakeBank()
const service = useService({ BANKS: '9PSB=live' }, bank.connectors)
let business: ScopedBusiness

beforeAll(async () => {
  business = await scopedBusiness(service)
})

const inFuture = (ms: number) => new Date(Date.now() + ms).toISOString()
const update = (reference: string, change: object, key = business.test) =>
  service.post('updateVirtualAccount/', key, { reference, ...change })

describe('updateVirtualAccount/ of a one-time account', () => {
  test('moves its expiry, at which it then ends', async () => {
    await openByKey(service, business.test, { reference: 'x-1', expiresIn: 3_600 })
    const expiresAt = inFuture(24 * HOUR_MS)
      .slice(0, 19)
      .replace('T', ' ')
    const { terms } = await data(service, business.test, 'updateVirtualAccount', {
      ...{ reference: 'x-1', expiresAt },
    })
    expect(terms).toMatchObject({ expiresAt, status: 'ACTIVE' })
    await data(service, business.test, 'updateVirtualAccount', { reference: 'x-1', expiresIn: 1 })
    const ended = await waitUntil(async () => {
      const shown = await data(service, business.test, 'getVirtualAccount', { reference: 'x-1' })
      return shown.terms.status === 'EXPIRED' && shown
    })
    expect(ended.terms.expiresAt).not.toBe(expiresAt)
    const { status, body } = await update('x-1', { expiresIn: 60 })
    expect([status, body.errors]).toEqual([
      422,
      [{ field: 'expiresAt', message: 'must be absent: the account has ended' }],
    ])
  })

  test('makes a repeated creation compare with the new expiry', async () => {
    const [first, second] = [inFuture(HOUR_MS), inFuture(2 * HOUR_MS)]
    await openByKey(service, business.test, { reference: 'x-2', expiresAt: first })
    expect((await update('x-2', { expiresAt: second })).status).toBe(200)
    const repeat = async (expiresAt: string) => {
      const request = creation({ reference: 'x-2', expiresAt })
      return (await service.post('generateVirtualAccount/', business.test, request)).status
    }
    expect(await repeat(second)).toBe(200)
    expect(await repeat(first)).toBe(409)
  })

  test.each<[string, object, object, string, string]>([
    ['of a permanent account', {}, { expiresIn: 60 }, 'expiresAt', 'permanent'],
    [
      'that has passed',
      { singleUse: true },
      { expiresAt: '2020-01-01 00:00:00' },
      'expiresAt',
      'in the future',
    ],
    [
      'that is too far off',
      { singleUse: true },
      { expiresAt: inFuture(400 * 24 * HOUR_MS) },
      'expiresAt',
      '366 days',
    ],
    ['that is no time', { singleUse: true }, { expiresAt: 'soon' }, 'expiresAt', 'RFC 3339'],
    ['of no seconds', { singleUse: true }, { expiresIn: 0 }, 'expiresIn', '1 to 31622400'],
    [
      'given twice',
      { singleUse: true },
      { expiresIn: 60, expiresAt: inFuture(HOUR_MS) },
      'expiresIn',
      'together',
    ],
  ])('refuses an expiry %s, and changes nothing', async (name, terms, change, field, message) => {
    const reference = `x-${name}`
    await openByKey(service, business.test, { reference, ...terms })
    const before = await data(service, business.test, 'getVirtualAccount', { reference })
    const { status, body } = await update(reference, { ...change, firstName: 'Other' })
    expect([status, body.errors]).toEqual([
      422,
      [{ field, message: expect.stringContaining(message) }],
    ])
    expect(await data(service, business.test, 'getVirtualAccount', { reference })).toEqual(before)
  })

  test('at a bank that ends the account itself takes only an earlier expiry', async () => {
    const reference = 'x-live'
    await openByKey(service, business.live, { reference, expiresIn: 7_200 })
    const later = await update(reference, { expiresIn: 10_800 }, business.live)
    expect([later.status, later.body.errors]).toEqual([
      422,
      [{ field: 'expiresAt', message: expect.stringContaining('must be earlier than before') }],
    ])
    expect((await update(reference, { expiresIn: 3_600 }, business.live)).status).toBe(200)
  })

  test('at such a bank may get its first expiry, which the bank does not know', async () => {
    const reference = 'x-live-first'
    await openByKey(service, business.live, { reference, singleUse: true })
    const { status, body } = await update(reference, { expiresIn: 3_600 }, business.live)
    expect([status, body.data.terms.status]).toEqual([200, 'ACTIVE'])
    expect((await update(reference, { expiresIn: 7_200 }, business.live)).status).toBe(422)
  })
})
