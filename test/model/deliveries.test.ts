import fc from 'fast-check'
import { afterAll, beforeAll, test } from 'vitest'
import { ENTITIES } from '../../src/app/entities.ts'
import { HOUR_MS } from '../../src/core/durations.ts'
import { type Database, openDatabase } from '../../src/postgres/orm.ts'
import { useDatabase } from '../support/database.ts'
import type { Command, Mood, Outcome, World } from './deliveries.ts'
import { adopt, compare, compareHours } from './deliveries-compare.ts'
import {
  awaitRemains,
  type Drive,
  type NewEndpoint,
  run,
  startDrive,
  stopDrive,
} from './deliveries-drive.ts'
import { expectStories, MODEL_SECONDS, weighted } from './try-stories.ts'

const db = useDatabase()
let second: Database

beforeAll(async () => {
  second = await openDatabase(db.url, ENTITIES)
})

afterAll(async () => {
  await awaitRemains()
  await second?.close()
})

/** The last business has no endpoints. */
const BUSINESSES = ['A', 'B', 'C'] as const
const KINDS = ['PAYMENT_NOTIFICATION', 'PAYMENT_ON_HOLD', 'PAYMENT_REVERSED', 'ACCOUNT_CREATED']

/** Of which some end a lease, a retry, an overlap, the pause of an endpoint, a warning's notice or a retention. */
const WAITS_MS = [
  -20 * 60_000,
  1_000,
  45_000,
  75_000,
  14 * 60_000,
  4 * HOUR_MS,
  25 * HOUR_MS,
  123 * HOUR_MS,
]
const RETENTION_MS = 31 * 24 * HOUR_MS

/** More events than the place moves at once from which an ordered endpoint's next delivery is looked for. */
const CROWD = Array.from({ length: 600 }, () => {
  return { business: 'C', live: true, kind: 'PAYMENT_NOTIFICATION' }
})

const kinds = fc.constantFrom<readonly string[]>([], [], ['PAYMENT_NOTIFICATION'], KINDS)

const newEndpoint: fc.Arbitrary<NewEndpoint> = fc.record({
  business: fc.constantFrom('A', 'A', 'A', 'B'),
  live: fc.constantFrom(true, true, true, false),
  ordered: fc.boolean(),
  kinds,
  concurrency: fc.constantFrom(1, 2, 10),
})

/** The next intent. The world determines the endpoint or delivery when it runs. */
const intent = fc.record({
  kind: weighted({
    late: 10,
    outage: 5,
    again: 1,
    publish: 6,
    wait: 8,
    mood: 5,
    release: 5,
    redeliver: 5,
    skip: 4,
    recover: 3,
    enable: 2,
    disable: 2,
    delete: 1,
    test: 1,
    order: 2,
    move: 1,
    choose: 1,
    rotate: 2,
    expireEvents: 1,
    cut: 1,
    retain: 2,
    crash: 2,
  }),
  which: fc.nat(99),
  other: fc.nat(99),
  flag: fc.boolean(),
  scene: fc.nat(5),
  kinds,
  waitMs: fc.constantFrom(...WAITS_MS),
  mood: fc.constantFrom<Mood>(
    'ok',
    'ok',
    'fail',
    'fail',
    'close',
    'gone',
    'later',
    'odd',
    'hold',
    'hold',
    'hold',
  ),
  outcome: fc.constantFrom<Outcome>('ok', 'ok', 'fail', 'close', 'gone'),
  overlapMs: fc.constantFrom(0, 45_000, 2 * HOUR_MS, 24 * HOUR_MS),
  events: fc.array(
    fc.record({
      business: fc.constantFrom('A', 'A', 'A', 'B'),
      live: fc.constantFrom(true, true, true, false),
      kind: fc.constantFrom(...KINDS),
    }),
    { minLength: 1, maxLength: 5 },
  ),
})
type Intent = typeof intent extends fc.Arbitrary<infer Each> ? Each : never

const choose = <Item>(items: readonly Item[], which: number): Item | undefined =>
  items[which % items.length]

/** A command, or what the world by then says. */
type Step = Command | ((world: World) => Command | undefined)

/** A request is not answered in time: meanwhile its delivery is sent again, or ended, or its lease ends. */
function answerLate(world: World, { which, other, flag, scene, outcome }: Intent): Step[] {
  const enabled = [...world.endpoints.values()].filter((each) => !each.disabled && !each.isDeleted)
  const at = choose(enabled, which)
  if (at === undefined) return []
  const { name: endpoint, business, live } = at
  const event = { business, live, kind: 'PAYMENT_NOTIFICATION' }
  const heldAt = ({ held }: World) =>
    [...held.values()].find((each) => each.delivery.endpoint === endpoint)
  const change =
    (kind: 'skip' | 'redeliver') =>
    (later: World): Command | undefined => {
      const held = heldAt(later)
      return held && { kind, endpoint, event: held.delivery.event }
    }
  const endLease: Command = { kind: 'wait', ms: 75_000 }
  const meanwhile: Step[][] = [
    [change('skip')],
    [endLease],
    [change('skip'), change('redeliver')],
    [endLease, change('redeliver')],
    [{ kind: 'disable', endpoint }, endLease, { kind: 'enable', endpoint }],
    [{ kind: 'crash' }, endLease],
  ]
  const mood: Mood = flag ? 'ok' : 'fail'
  return [
    { kind: 'mood', endpoint, mood: 'hold' },
    { kind: 'publish', events: other % 2 === 1 ? [event, event] : [event] },
    ...(flag ? [] : [{ kind: 'mood', endpoint, mood } as const]),
    ...choose(meanwhile, scene)!,
    { kind: 'mood', endpoint, mood },
    (later) => {
      const request = heldAt(later)?.request.number
      return request === undefined ? undefined : { kind: 'release', request, outcome }
    },
  ]
}

/** A receiver fails for longer than its retries last. */
function failLong(world: World, { which, other, flag }: Intent): Step[] {
  const at = choose([...world.endpoints.values()], which)!
  const { name: endpoint, business, live } = at
  const event = { business, live, kind: 'PAYMENT_NOTIFICATION' }
  return [
    { kind: 'mood', endpoint, mood: flag ? 'fail' : 'close' },
    { kind: 'publish', events: [event, event] },
    ...Array.from({ length: 2 + (other % 3) }, (): Command => ({ kind: 'wait', ms: 4 * HOUR_MS })),
    { kind: 'mood', endpoint, mood: 'ok' },
    { kind: 'wait', ms: 4 * HOUR_MS },
  ]
}

/** What was sent long ago is sent again: an endpoint looks for its next delivery far behind it by then. */
function sendAgain(world: World, { which, flag }: Intent): Step[] {
  const { name: endpoint, business, live } = choose([...world.endpoints.values()], which)!
  const event = { business, live, kind: 'PAYMENT_NOTIFICATION' }
  return [
    { kind: 'publish', events: [event] },
    { kind: 'publish', events: CROWD },
    { kind: 'publish', events: [event] },
    { kind: 'mood', endpoint, mood: flag ? 'ok' : 'fail' },
    (later) => {
      const sent = later.deliveries.find((each) => each.endpoint === endpoint)
      return sent && { kind: 'redeliver', endpoint, event: sent.event }
    },
  ]
}

/** The commands of an intent; none if the world has no object for it. */
function toSteps(world: World, intended: Intent): Step[] {
  const { kind, which, other, flag, ...more } = intended
  const endpoint = choose([...world.endpoints.keys()], which)!
  switch (kind) {
    case 'late':
      return answerLate(world, intended)
    case 'outage':
      return failLong(world, intended)
    case 'publish':
      return [{ kind, events: more.events }]
    case 'again':
      return sendAgain(world, intended)
    case 'wait':
      return [{ kind, ms: more.waitMs }]
    case 'mood':
      return [{ kind, endpoint, mood: more.mood }]
    case 'release': {
      const request = choose([...world.held.keys()], which)
      return request === undefined ? [] : [{ kind, request, outcome: more.outcome }]
    }
    case 'redeliver':
    case 'skip': {
      // Half of them are about a request in progress, or about what is pending.
      const held = [...world.held.values()].map((each) => each.delivery)
      const pending = world.deliveries.filter(({ state }) => state === 'PENDING')
      const likely = held.length > 0 ? held : pending
      const delivery = choose(flag && likely.length > 0 ? likely : world.deliveries, other)
      return delivery ? [{ kind, endpoint: delivery.endpoint, event: delivery.event }] : []
    }
    case 'recover': {
      const since = flag ? choose(world.deliveries, other) : undefined
      return [{ kind, endpoint, sinceMs: since?.created.fromMs ?? 0 }]
    }
    case 'order':
      return [{ kind, endpoint, ordered: flag }]
    case 'move':
      return [{ kind, endpoint, path: `/${endpoint}/${other % 2}` }]
    case 'choose':
      return [{ kind, endpoint, kinds: more.kinds }]
    case 'rotate':
      return [{ kind, endpoint, overlapMs: more.overlapMs }]
    case 'expireEvents':
      return [{ kind, upTo: other % (world.events.length + 1) }]
    case 'cut':
      return world.events.at(-1)?.partition === world.partition ? [{ kind }] : []
    case 'crash':
      return [{ kind }]
    case 'retain':
      return flag ? [{ kind: 'wait', ms: RETENTION_MS }, { kind }] : [{ kind }]
    default:
      return [{ kind, endpoint }]
  }
}

const story = fc.record({
  endpoints: fc.array(newEndpoint, { minLength: 1, maxLength: 4 }),
  /** Of the second instance's clock. */
  skewMs: fc.constantFrom(0, 20_000),
  intents: fc.array(intent, { minLength: 1, maxLength: 15, size: 'max' }),
})
type Story = typeof story extends fc.Arbitrary<infer Each> ? Each : never

/** A command as one line. */
const textOf = (command: Command) =>
  command.kind === 'publish' && command.events === CROWD ? 'a crowd' : JSON.stringify(command)

let count = 0

/** Plays a story. If it fails, the error lists all commands. */
async function play({ endpoints, skewMs, intents }: Story): Promise<void> {
  count += 1
  const done = endpoints.map((each, index) => `e${index}: ${JSON.stringify(each)}`)
  done.push(`the clock of the second instance is ${skewMs} ms ahead`)
  let drive: Drive | undefined
  try {
    drive = await startDrive([db.database, second], BUSINESSES, endpoints, skewMs)
    const { world } = drive
    const playAll = async (steps: readonly Step[]) => {
      for (const each of steps) {
        const command = typeof each === 'function' ? each(world) : each
        if (command === undefined) continue
        done.push(textOf(command))
        await run(drive as Drive, command)
        await adopt(drive as Drive)
      }
    }
    for (const each of intents) await playAll(toSteps(world, each))
    await compare(drive)
    const names = [...world.endpoints.keys()]
    await playAll(names.map((endpoint) => ({ kind: 'mood', endpoint, mood: 'ok' })))
    await playAll(
      [...world.held.keys()].map((request) => ({ kind: 'release', request, outcome: 'ok' })),
    )
    const ended = drive
    drive = undefined
    await stopDrive(ended)
    await compareHours(ended)
  } catch (error) {
    throw new Error(`${done.join('\n')}\n${(error as Error).message}`, { cause: error })
  } finally {
    if (drive) await stopDrive(drive)
  }
}

test(
  'webhooks are sent as the model says, whatever receivers, callers and clocks do',
  async () => {
    await expectStories(story, play)
    console.log(`${count} stories`)
  },
  (MODEL_SECONDS + 300) * 1_000,
)
