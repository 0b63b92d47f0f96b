import type { DescMethod, JsonValue } from '@bufbuild/protobuf'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { useService } from '../../support/service.ts'
import { waitFor } from '../../support/wait-for.ts'
import { allMethods, inTurn, nameOf, protocolsOf } from './protocols.ts'
import { HAPPY, TAKE } from './rows.ts'
import { authorizationOf, type Scene, setScene } from './scene.ts'

const service = useService()
const methods = await allMethods()

let scene: Scene

beforeAll(async () => {
  scene = await setScene(service)
})

afterAll(() => scene?.close())

test('every rpc has a row', () => {
  expect(Object.keys(HAPPY).sort()).toEqual(methods.map(nameOf).sort())
})

describe('a successful call has the same response over every protocol', () => {
  test.each(methods.map((method) => [nameOf(method), method] as const))(
    '%s',
    async (name, method) => {
      const read = method.idempotency === 1 || name.endsWith('.Subscribe')
      const compare = () => compareProtocols(name, method, read)
      // A delivery may be attempted, or an event get its position, between two reads.
      await (read ? waitFor(compare) : compare())
    },
  )
})

async function compareProtocols(name: string, method: DescMethod, read: boolean) {
  const answers: [string, unknown][] = []
  const protocols = inTurn(protocolsOf(method), methods.indexOf(method))
  for (const [index, [protocol, call]] of protocols.entries()) {
    const fresh = `fresh-${name}-${index}`.replace('.', '-')
    const outcome = await call(service, {
      method,
      request: await HAPPY[name]!(scene, fresh),
      authorization: authorizationOf(scene, name),
      take: TAKE[name] ?? 1,
    })
    if (!('messages' in outcome)) throw new Error(`${protocol}: ${JSON.stringify(outcome)}`)
    // A read is the same to the letter; a write makes new things of the same shape.
    answers.push([
      protocol,
      read && !OF_NOW.has(name) ? outcome.messages : steady(outcome.messages as JsonValue, fresh),
    ])
  }
  const [first] = answers
  expect(first?.[1]).toHaveLength(TAKE[name] ?? 1)
  for (const [protocol, answer] of answers)
    expect([protocol, answer]).toEqual([protocol, first?.[1]])
}

/** Reads of what changes by itself. The page tokens of statements have the end of the log. */
const OF_NOW: ReadonlySet<string> = new Set([
  'OverviewService.GetOverview',
  'PayoutService.GetFloat',
  'SettlementService.ListEntries',
  'ThirdPartyService.GetStatement',
])

/** What is in its response only sometimes, or is another number each time. */
const PASSING = ['health', 'banks', 'waiting']

/** Numbers that differ from call to call. */
const COUNTERS = ['epoch', 'attemptCount', 'number', 'latencyMs', 'attempt_count', 'latency_ms']

/** An answer with what every write makes anew replaced by its kind. */
function steady(value: JsonValue, fresh: string): JsonValue {
  if (typeof value === 'string') return steadyText(value, fresh)
  if (Array.isArray(value)) return value.map((each) => steady(each, fresh))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => !PASSING.includes(name))
      .map(([name, each]) => [name, COUNTERS.includes(name) ? '<number>' : steady(each, fresh)]),
  )
}

function steadyText(text: string, fresh: string): string {
  return text
    .replace(fresh, '<fresh>')
    .replace(/^([a-z]+_)[0-9a-z]{26}$/, '<$1>')
    .replace(/^(sk_live_|sk_test_|whsec_|it_).+$/, '<$1>')
    .replace(/^(\/console\/sign-in#(ic|pl)_).+$/, '<$1>')
    .replace(/^R-[0-9A-Z]{20}$/, '<reference>')
    .replace(/^[0-9A-Z]{25}$/, '<bank reference>')
    .replace(/^[\w-]{100,}$/, '<resolution>')
    .replace(/^Wy[\w-]+$/, '<page token>')
    .replace(/^\d{10}$/, '<account number>')
    .replace(/^\d{30}$/, '<session>')
    .replace(/999999\d{20}/, '<session prefix>')
    .replace(/^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?$/, '<time>')
    .replace(/^(refund:\w+:)\d{30}:/, '$1<session>:')
}
