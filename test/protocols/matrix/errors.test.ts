import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CONNECTORS } from '../../../src/banks/connectors.ts'
import { startFakeSafeHaven } from '../../../src/banks/safehaven/fake/safehaven.ts'
import { readConfig } from '../../../src/config/config.ts'
import { REASONS, type Reason } from '../../../src/core/errors.ts'
import { fakeConnectors } from '../../support/fake-bank.ts'
import { type Instance, startInstance } from '../../support/instance.ts'
import { safeHavenLive } from '../../support/live-banks.ts'
import { byHand, startProxy, type TcpProxy } from '../../support/proxy.ts'
import { useService } from '../../support/service.ts'
import { ERRORS, NAMED_ERRORS, OF_LIVE_BANKS, ROWS } from './error-rows.ts'
import {
  allMethods,
  nameOf,
  oneInTurn,
  PROTOCOLS,
  type Protocol,
  protocolsOf,
} from './protocols.ts'
import { HAPPY } from './rows.ts'
import { authorizationOf, type Request, type Scene, setScene } from './scene.ts'

const service = useService()
const methods = await allMethods()

let scene: Scene
let live: Instance
let wire: TcpProxy
let away: Instance

beforeAll(async () => {
  scene = await setScene(service)
  const BANKS = '9PSB=live,SAFEHAVEN=live,PROVIDUS=live,PALMPAY=live'
  // Safe Haven can list what it sent; nothing listens at its address any more.
  const haven = await startFakeSafeHaven({ port: 0 })
  await haven.close()
  const { banks, liveBanks } = readConfig(
    { BANKS, ...safeHavenLive(haven) },
    { ...fakeConnectors('http://127.0.0.1:9'), SAFEHAVEN: CONNECTORS.SAFEHAVEN! },
  )
  const recordRequiresConfirmation = true
  live = await startInstance(service.url, { banks, liveBanks, recordRequiresConfirmation })
  wire = await startProxy(service.url, byHand)
  away = await startInstance(wire.through)
})

afterAll(async () => {
  await live?.close()
  await away?.close()
  await wire?.block()
  await scene?.close()
})

test('every row is of an error that the contract names', () => {
  expect(Object.keys(ROWS).filter((row) => !NAMED_ERRORS.has(row))).toEqual([])
})

test('the comments name the codes that the reasons have', () => {
  for (const [row, code] of NAMED_ERRORS) {
    const reason = row.split(' ')[1] as Reason
    expect([row, code]).toEqual([row, REASONS[reason][0]])
  }
})

const rows = Object.keys(ERRORS)

const isFirstOf = (row: string, reason: string) =>
  rows.find((each) => each.endsWith(` ${reason}`)) === row

/** REST names the fields of paging in snake case, where the others may have them in camel case. */
const inOneCase = (outcome: unknown): unknown =>
  JSON.parse(
    JSON.stringify(outcome)
      .replaceAll('pageSize', 'page_size')
      .replaceAll('pageToken', 'page_token'),
  )

// The first error of a reason over each protocol, the others over one: test/openapi/answers has all that REST has.
describe('an error is the same whatever the protocol', () => {
  test.each(rows)('%s', async (row) => {
    const [name = '', reason = ''] = row.split(' ')
    const method = methods.find((each) => nameOf(each) === name)!
    const at = OF_LIVE_BANKS.has(row) ? live : service
    const outcomes: [string, unknown][] = []
    const shared = /^too_many_(endpoints|rehearsals)$/.test(reason)
      ? await ERRORS[row]!(scene, '')
      : undefined
    const all = protocolsOf(method)
    const protocols = isFirstOf(row, reason) ? all : oneInTurn(all, rows.indexOf(row))
    for (const [index, [protocol, call]] of protocols.entries()) {
      const request = shared ?? (await ERRORS[row]!(scene, `${row} ${index}`))
      const outcome = await call(at, {
        method,
        request,
        authorization: authorizationOf(scene, row),
      })
      outcomes.push([protocol, outcome])
    }
    const [, first] = outcomes[0] ?? []
    expect(first).toMatchObject({ code: REASONS[reason as Reason][0], reason })
    if (reason === 'validation_failed') expect(first).not.toMatchObject({ violations: [] })
    if (reason.endsWith('unavailable'))
      expect(first).not.toMatchObject({ retryAfterSeconds: undefined })
    for (const [protocol, outcome] of outcomes)
      expect([protocol, inOneCase(outcome)]).toEqual([protocol, inOneCase(first)])
  })
})

test('a request for live mode that has the deprecated `test` too is refused', async () => {
  const both = methods.filter(({ input }) => input.fields.some(({ name }) => name === 'test'))
  expect(both.map(nameOf)).toContain('SettlementService.Settle')
  for (const method of both) {
    const happy = await HAPPY[nameOf(method)]!(scene, `both-${method.name}`)
    const outcome = await PROTOCOLS['Connect in JSON']!(service, {
      method,
      request: { ...happy, live: true, test: true },
      authorization: authorizationOf(scene, nameOf(method)),
    })
    expect([nameOf(method), outcome]).toMatchObject([
      nameOf(method),
      { reason: 'validation_failed', violations: [{ field: 'live' }] },
    ])
  }
})

/** They return what is in the contract or the code, or known of the caller. */
const NEEDS_NO_DATABASE = new Set([
  'WebhookService.ListEventKinds',
  'SessionService.GetCaller',
  'PayoutService.ListBanks',
])

test('while the database is unavailable, every rpc that needs it returns UNAVAILABLE, whatever the protocol, and recovers', async () => {
  const calls: [string, Protocol, (typeof methods)[number], Request][] = []
  for (const method of methods.filter((each) => !NEEDS_NO_DATABASE.has(nameOf(each)))) {
    const request = await HAPPY[nameOf(method)]!(scene, `away-${method.name}`)
    for (const [protocol, call] of oneInTurn(protocolsOf(method), methods.indexOf(method)))
      calls.push([protocol, call, method, request])
  }
  const run = ([protocol, call, method, request]: (typeof calls)[number]) =>
    call(away, { method, request, authorization: authorizationOf(scene, nameOf(method)) }).then(
      (outcome) => [`${nameOf(method)} at ${protocol}`, outcome] as const,
    )
  await wire.block()
  for (const [where, outcome] of await Promise.all(calls.map(run))) {
    expect([where, outcome]).toEqual([
      where,
      {
        code: 'UNAVAILABLE',
        reason: 'unavailable',
        message: 'The service cannot reach its database; try again shortly',
        violations: [],
        retryAfterSeconds: 1,
      },
    ])
  }
  await wire.unblock()
  const again = methods.find((method) => nameOf(method) === 'AccountService.GetAccount')!
  const request = await HAPPY['AccountService.GetAccount']!(scene, '')
  const outcome = await PROTOCOLS['Connect in JSON']!(away, {
    method: again,
    request,
    authorization: authorizationOf(scene, nameOf(again)),
  })
  expect(outcome).toHaveProperty('messages')
})
