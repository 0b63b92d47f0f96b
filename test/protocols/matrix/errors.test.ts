import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readConfig } from '../../../src/config/config.ts'
import { REASONS, type Reason } from '../../../src/core/errors.ts'
import { fakeConnectors } from '../../support/fake-bank.ts'
import { type Instance, startInstance, startWire, type Wire } from '../../support/instance.ts'
import { useService } from '../../support/service.ts'
import { ERRORS, OF_LIVE_BANKS } from './error-rows.ts'
import { allMethods, nameOf, PROTOCOLS, type Protocol, protocolsOf } from './protocols.ts'
import { HAPPY } from './rows.ts'
import { authorizationOf, type Request, type Scene, setScene } from './scene.ts'

const service = useService()
const methods = await allMethods()

let scene: Scene
let live: Instance
let wire: Wire
let away: Instance

beforeAll(async () => {
  scene = await setScene(service)
  const BANKS = '9PSB=live,SAFEHAVEN=live,PROVIDUS=live,PALMPAY=live'
  const { banks, liveBanks } = readConfig({ BANKS }, fakeConnectors('http://127.0.0.1:9'))
  const recordRequiresConfirmation = true
  live = await startInstance(service.url, { banks, liveBanks, recordRequiresConfirmation })
  wire = await startWire(service.url)
  away = await startInstance(wire.url)
})

afterAll(async () => {
  await live?.close()
  await away?.close()
  await wire?.close()
  await scene?.close()
})

/** What the comments in proto/ promise: "Service.Rpc reason" → gRPC code. */
function namedErrors(): Map<string, string> {
  const root = join(import.meta.dirname, '../../../proto/inflow')
  const named = new Map<string, string>()
  for (const file of readdirSync(root, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('_service.proto')) continue
    const text = readFileSync(join(root, file), 'utf8')
    const service = /^service (\w+)/m.exec(text)?.[1]
    for (const [, comment = '', rpc] of text.matchAll(/((?: {2}\/\/.*\n)*) {2}rpc (\w+)\(/g)) {
      const errors = comment.replaceAll(/\n? *\/\/ ?/g, ' ').split('Errors:')[1] ?? ''
      for (const [, code = '', inside = ''] of errors.matchAll(/([A-Z_]+) \(([^)]*)\)/g)) {
        const reasons = inside.split(/[;,]/).map((part) => part.trim().split(':', 1)[0] ?? '')
        const known = reasons.filter((reason) => Object.hasOwn(REASONS, reason))
        if (known.length === 0) throw new Error(`${rpc}: ${code} names no reason`)
        for (const reason of known) named.set(`${service}.${rpc} ${reason}`, code)
      }
    }
  }
  return named
}

const NAMED = namedErrors()

test('every error that the contract names has a row, and every row is named', () => {
  const named = [...NAMED.keys()].filter((each) => !each.endsWith(' unavailable'))
  expect(Object.keys(ERRORS).sort()).toEqual(named.sort())
})

test('the comments name the codes that the reasons have', () => {
  for (const [row, code] of NAMED) {
    const reason = row.split(' ')[1] as Reason
    expect([row, code]).toEqual([row, REASONS[reason][0]])
  }
})

const rows = Object.keys(ERRORS)

/** Before a release: every error over every protocol. */
const FULL = process.env['MATRIX'] === 'full'

const isFirstOf = (row: string, reason: string) =>
  rows.find((each) => each.endsWith(` ${reason}`)) === row

// The first error of a reason over each protocol, the others over REST and two of the others.
describe('an error is the same whatever the protocol', () => {
  test.each(rows)('%s', async (row) => {
    const [name = '', reason = ''] = row.split(' ')
    const method = methods.find((each) => nameOf(each) === name)!
    const at = OF_LIVE_BANKS.has(row) ? live : service
    const outcomes: [string, unknown][] = []
    const shared = /^too_many_(endpoints|rehearsals)$/.test(reason)
      ? await ERRORS[row]!(scene, '')
      : undefined
    const protocols = protocolsOf(method).filter(([protocol], index) => {
      const isInTurn = index === 0 || index === 1 + (rows.indexOf(row) % 4)
      return FULL || isFirstOf(row, reason) || isInTurn || protocol === 'REST'
    })
    for (const [index, [protocol, call]] of protocols.entries()) {
      const request = shared ?? (await ERRORS[row]!(scene, `${row} ${index}`))
      outcomes.push([
        protocol,
        await call(at, { method, request, authorization: authorizationOf(scene, row) }),
      ])
    }
    const [, first] = outcomes[0] ?? []
    expect(first).toMatchObject({ code: REASONS[reason as Reason][0], reason })
    if (reason === 'validation_failed') expect(first).not.toMatchObject({ violations: [] })
    if (reason.endsWith('unavailable'))
      expect(first).not.toMatchObject({ retryAfterSeconds: undefined })
    for (const [protocol, outcome] of outcomes)
      expect([protocol, outcome]).toEqual([protocol, first])
  })
})

/** They return what is in the contract, or known of the caller. */
const NEEDS_NO_DATABASE = new Set(['WebhookService.ListEventKinds', 'SessionService.GetCaller'])

test('while the database is unavailable, every rpc that needs it returns UNAVAILABLE, whatever the protocol, and recovers', async () => {
  const calls: [string, Protocol, (typeof methods)[number], Request][] = []
  for (const method of methods.filter((each) => !NEEDS_NO_DATABASE.has(nameOf(each)))) {
    const request = await HAPPY[nameOf(method)]!(scene, `away-${method.name}`)
    const protocols = protocolsOf(method)
    const turn = methods.indexOf(method) % protocols.length
    for (const [protocol, call] of FULL ? protocols : [protocols[turn]!])
      calls.push([protocol, call, method, request])
  }
  const run = ([protocol, call, method, request]: (typeof calls)[number]) =>
    call(away, { method, request, authorization: authorizationOf(scene, nameOf(method)) }).then(
      (outcome) => [`${nameOf(method)} at ${protocol}`, outcome] as const,
    )
  await wire.cut()
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
  await wire.mend()
  const again = methods.find((method) => nameOf(method) === 'AccountService.GetAccount')!
  const request = await HAPPY['AccountService.GetAccount']!(scene, '')
  const outcome = await PROTOCOLS['Connect in JSON']!(away, {
    method: again,
    request,
    authorization: authorizationOf(scene, nameOf(again)),
  })
  expect(outcome).toHaveProperty('messages')
})
