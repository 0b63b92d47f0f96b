import type { DescMethod } from '@bufbuild/protobuf'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { useService } from '../../support/service.ts'
import { waitFor } from '../../support/wait-for.ts'
import { asJson, send } from '../rest/rest.ts'
import { type Credentials, makeCredentials, malformedHeaders } from './callers.ts'
import { verdictOf } from './oracle.ts'
import { allMethods, nameOf } from './protocols.ts'
import { HAPPY } from './rows.ts'
import { type Request, type Scene, setScene } from './scene.ts'
import { snapshotOf } from './snapshot.ts'
import { type WireOutcome, wireProtocolsOf } from './wire.ts'

// All that is refused here comes from one address.
const service = useService({ RATE_LIMIT_FAILED: 'off' })
const methods = await allMethods()
const EACH = methods.map((method) => [nameOf(method), method] as const)

let scene: Scene
let credentials: Credentials
/** Requests that would succeed: a call that should have been refused changes something. */
const requests = new Map<DescMethod, Request>()
let before: unknown

beforeAll(async () => {
  scene = await setScene(service)
  credentials = await makeCredentials(service, scene)
  for (const [name, method] of EACH) {
    requests.set(method, await HAPPY[name]!(scene, `refused-${name}`.replace('.', '-')))
  }
  before = await snapshotOf(service)
})

afterAll(() => scene?.close())

/** Before a release: every method with every credential over every protocol. */
const FULL = process.env['MATRIX'] === 'full'

/**
 * Calls a method with each credential: with the first over every protocol, and with the others over
 * one each, in turn, so that every protocol meets every credential.
 */
async function callAll(
  method: DescMethod,
  authorizations: [string, string | undefined][],
  request: Request,
) {
  const turn = methods.indexOf(method)
  const calls = wireProtocolsOf(method).flatMap(([protocol, call], index, { length }) =>
    authorizations
      .filter((_, nth) => FULL || nth === 0 || (turn + nth) % length === index)
      .map(async ([kind, authorization]) => {
        let outcome = await call(service, { method, request, authorization })
        // A busy machine may not reach its database in time.
        while (outcome.reason === 'unavailable')
          outcome = await call(service, { method, request, authorization })
        return { protocol, kind, outcome }
      }),
  )
  return Promise.all(calls)
}

/** The HTTP status of a refusal: gRPC-Web and streams state the error in the body. */
function statusOf(protocol: string, method: DescMethod, status: number): number | undefined {
  if (protocol === 'gRPC') return undefined
  return protocol === 'gRPC-Web' || method.methodKind !== 'unary' ? 200 : status
}

const REFUSALS = {
  UNAUTHENTICATED: { status: 401, reason: 'unauthorized' },
  PERMISSION_DENIED: { status: 403, reason: 'permission_denied' },
} as const

function expectRefused(
  method: DescMethod,
  code: keyof typeof REFUSALS,
  calls: readonly { protocol: string; kind: string; outcome: WireOutcome }[],
): void {
  const { status, reason } = REFUSALS[code]
  for (const { protocol, kind, outcome } of calls) {
    const { bytes, ...found } = outcome
    const wanted = {
      code,
      reason,
      ...(protocol !== 'gRPC' && { status: statusOf(protocol, method, status) }),
    }
    expect([protocol, kind, found]).toEqual([protocol, kind, wanted])
    // Whatever is wrong with a credential, the response is the same.
    const first = calls.find((each) => each.protocol === protocol)!
    expect([protocol, kind, bytes]).toEqual([protocol, kind, first.outcome.bytes])
  }
}

describe('what the policy refuses is refused over every protocol, with the same response', () => {
  test.each(EACH)('%s', async (_name, method) => {
    for (const code of ['UNAUTHENTICATED', 'PERMISSION_DENIED'] as const) {
      const refused = Object.entries(credentials)
        .filter(([, { is }]) => verdictOf(method, is) === code)
        .map(([kind, { authorization }]) => [kind, authorization] as [string, string | undefined])
      expectRefused(method, code, await callAll(method, refused, requests.get(method)!))
    }
  })

  test.each(EACH.filter(([name]) => /\.(GetBalance|RecordPayment)$/.test(name)))(
    '%s, with headers that only look like a credential',
    async (_name, method) => {
      const headers = Object.entries(malformedHeaders(scene.key))
      const calls = await callAll(method, headers, requests.get(method)!)
      expectRefused(method, 'UNAUTHENTICATED', calls)
    },
  )

  test.each([
    ['GET', '/healthz', 200],
    ['GET', '/readyz', 200],
    ['GET', '/metrics', 200],
    ['POST', '/v2/thirdparty/unknown/', 404],
    ['POST', '/inflow.account.v1.AccountService/Unknown', 404],
    ['POST', '/banks/9psb/notifications', 404],
  ])('%s %s is the same for every credential', async (verb, path, status) => {
    const askAll = () =>
      Object.entries(credentials).map(async ([kind, { authorization }]) => {
        const headers = { ...asJson(), ...(authorization !== undefined && { authorization }) }
        const body = verb === 'POST' ? '{}' : ''
        const answer = await send(service.httpUrl, { method: verb, path, headers, body })
        return [kind, answer.status]
      })
    const expected = Object.keys(credentials).map((kind) => [kind, status])
    // An instance is not ready while its database takes longer than 1.5 s.
    await waitFor(async () => expect(await Promise.all(askAll())).toEqual(expected))
  })

  test('and changes nothing', async () => {
    expect(await snapshotOf(service)).toEqual(before)
  })
})
