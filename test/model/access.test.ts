import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { readConfig } from '../../src/config/config.ts'
import { DAY_MS, MINUTE_MS } from '../../src/core/durations.ts'
import { useDatabase } from '../support/database.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { SEED } from '../support/random.ts'
import {
  ADDRESSES,
  ADMIN,
  CIDRS,
  type Command,
  type Credential,
  hookOf,
  IDLE_MS,
  MODES,
  type World,
} from './access.ts'
import {
  type AccessDrive,
  type AccessInstance,
  COUNT_USES,
  connectAccess,
  runAccess,
  startAccess,
} from './access-drive.ts'
import { expectStories, MODEL_SECONDS, recount } from './try-stories.ts'

const db = useDatabase()
let started: readonly Instance[] = []
let instances: readonly AccessInstance[]

beforeAll(async () => {
  const settings = {
    HTTP_PORT: '0',
    GRPC_PORT: '0',
    TRUSTED_PROXIES: '127.0.0.1',
    RATE_LIMIT_KEY: 'off',
    RATE_LIMIT_ADDRESS: 'off',
    RATE_LIMIT_FAILED: 'off',
  }
  const clocks = [newClock(), newClock()]
  started = await Promise.all(
    // The clocks differ for as long as a story wants: they are compared with the database's at the start only.
    clocks.map((clock) => startInstance(db.url, readConfig(settings), undefined, clock, DAY_MS)),
  )
  instances = started.map((each, index) => connectAccess(each, clocks[index]!))
  await db.database.durablePool.query(COUNT_USES)
})

afterAll(async () => {
  await Promise.all(started.map((each) => each.close()))
})

/** Stands still, once it is set. */
function newClock(): AccessInstance['clock'] {
  const clock: AccessInstance['clock'] = {
    nowMs: undefined,
    now: () => clock.nowMs ?? Date.now(),
  }
  return clock
}

const BUSINESSES = ['A', 'B'] as const
/** A clock may be set back, but what is issued then must not have expired in the test's own time. */
const MOVED_MS = { min: -2 * 60 * MINUTE_MS, max: 5 * DAY_MS }
const NEVER = Number.POSITIVE_INFINITY

const KEY_SCOPES = [[], ['events:read'], ['webhooks:read', 'webhooks:write']] as const
const SCOPES = [['admin'], ['read'], ['payments:write'], ['read', 'payments:write']] as const
const LINK_SCOPES = [['read'], ['payments:write', 'read']] as const
const OVERLAPS_MS = [0, MINUTE_MS, DAY_MS] as const
const LIFETIMES_MS = [5 * MINUTE_MS, 90 * MINUTE_MS, DAY_MS, NEVER] as const
const STEPS_MS = [
  1,
  900,
  1_000,
  59_999,
  60_000,
  10 * MINUTE_MS,
  59 * MINUTE_MS,
  60 * MINUTE_MS,
  -1_000,
  -MINUTE_MS,
  -30 * MINUTE_MS,
  12 * 60 * MINUTE_MS,
] as const

const READS = [
  ...(['getCaller', 'getBusiness', 'listBusinesses', 'listKeys', 'listTokens'] as const),
  ...(['listSessions', 'listLinks', 'listAudit', 'listEvents', 'listHooks', 'changeHook'] as const),
] as const
const CHANGES = [
  ...(['issueKey', 'importKey', 'updateKey', 'rotateKey', 'revokeKey', 'issueToken'] as const),
  ...(['revokeToken', 'createCode', 'createLink', 'revokeLink', 'revokeSession'] as const),
  ...(['updateBusiness', 'signOut'] as const),
] as const
const OF_KEYS = ['rotateKey', 'revokeKey', 'updateKey'] as const
/** The commands that can change the same row concurrently. */
const PAIRS = new Map<Intent['kind'], readonly Exclude<Intent['kind'], Chain>[]>([
  ...OF_KEYS.map((kind) => [kind, OF_KEYS] as const),
  ...(['importKey', 'revokeToken', 'revokeLink', 'revokeSession', 'signIn'] as const).map(
    (kind) => [kind, [kind]] as const,
  ),
])

/** The intent of a caller. The world determines the credential and the objects when the command runs. */
const intent = fc.record({
  kind: fc.oneof(
    { weight: 9, arbitrary: fc.constantFrom(...READS) },
    { weight: 7, arbitrary: fc.constantFrom(...CHANGES) },
    { weight: 5, arbitrary: fc.constant('move' as const) },
    { weight: 5, arbitrary: fc.constant('signIn' as const) },
    { weight: 4, arbitrary: fc.constant('outlive' as const) },
    { weight: 3, arbitrary: fc.constant('withdraw' as const) },
    { weight: 1, arbitrary: fc.constant('crowd' as const) },
  ),
  /** Another command that changes the same row concurrently. */
  isPaired: fc.boolean(),
  by: fc.nat(99),
  which: fc.nat(999),
  other: fc.nat(99),
  at: fc.nat(1),
  flag: fc.boolean(),
})
type Intent = typeof intent extends fc.Arbitrary<infer Each> ? Each : never

/** Intents that are several commands. */
type Chain = 'outlive' | 'withdraw' | 'crowd'

const choose = <Item>(items: readonly Item[], which: number): Item => items[which % items.length]!

/** The command of an intent; undefined if the world has no object for it. */
function toCommand(
  world: World,
  kind: Exclude<Intent['kind'], Chain>,
  { which, other, at, flag, ...more }: Intent,
  name: string,
): Command | undefined {
  const all = [...world.credentials.values()]
  const of = (...kinds: readonly Credential['kind'][]) =>
    all.filter((each) => kinds.includes(each.kind) && each.count === 1)
  const nowMs = Math.max(world.nowMs[at]!, 0)
  const isKeys = kind === 'listEvents' || kind === 'listHooks' || kind === 'changeHook'
  const callers = of(...(isKeys ? (['key'] as const) : (['token', 'session'] as const)))
  const others = more.by % 10 === 0 ? of('key', 'token', 'session') : callers
  const isAdmin = others.length === 0 || (!isKeys && more.by % 10 >= 5)
  // An operator of one business, who wants what is another's, too.
  const isOfOne = !isKeys && more.by % 10 === 9 && world.credentials.has('TA')
  const chosen = isAdmin ? ADMIN : choose(others, more.by + other).name
  const by = isOfOne ? 'TA' : chosen
  const from = isKeys ? choose(ADDRESSES, other) : undefined
  const command = { by, at, name, ...(from !== undefined && { from }) }
  const business = choose(BUSINESSES, which)
  const expiresMs = nowMs + choose(LIFETIMES_MS, which)
  const pageSize = choose([0, 2, 7], other)
  const cidrs = flag ? [] : [choose(CIDRS, other)]
  const target = (...kinds: readonly Credential['kind'][]) => {
    const found = of(...kinds)
    return found.length === 0 ? undefined : choose(found, which).name
  }
  const onTarget = (found: string | undefined, make: (target: string) => Command) =>
    found === undefined ? undefined : make(found)
  const key = { business, live: flag, cidrs, scopes: choose(KEY_SCOPES, other), expiresMs }
  switch (kind) {
    case 'getCaller':
    case 'listBusinesses':
    case 'listEvents':
    case 'listHooks':
    case 'createCode':
      return { ...command, kind }
    case 'getBusiness':
      return { ...command, kind, business }
    case 'listKeys':
      return { ...command, kind, business, pageSize }
    case 'listTokens':
      return { ...command, kind, active: choose([true, false, undefined], which), pageSize }
    case 'listSessions':
      return { ...command, kind, active: flag, pageSize }
    case 'listLinks': {
      const wanted = choose([undefined, ...BUSINESSES], which)
      return { ...command, kind, business: wanted, active: flag, pageSize }
    }
    case 'listAudit': {
      const line = choose([...world.audit, ''], which)
      const [action, , actor, changed] = line.split(' ')
      const wanted = choose(['action', 'actor', 'target', 'business', 'none'] as const, other)
      const filter = {
        ...(wanted === 'action' && action && { action }),
        ...(wanted === 'actor' && actor && actor !== '-' && { actor }),
        ...(wanted === 'target' && changed && { target: changed }),
        ...(wanted === 'business' && { business }),
      }
      return { ...command, kind, filter, pageSize }
    }
    case 'changeHook':
      return { ...command, kind, target: hookOf(business, choose(MODES, other)) }
    case 'updateBusiness':
      return { ...command, kind, business, title: `${business} ${name}` }
    case 'issueKey':
      return { ...command, kind, ...key }
    case 'importKey':
      return { ...command, kind, ...key, text: `k${which % 2}` }
    case 'updateKey':
      return onTarget(target('key'), (found) => ({ ...command, kind, target: found, cidrs }))
    case 'rotateKey': {
      const rotation = { overlapMs: choose(OVERLAPS_MS, other), expiresMs }
      return onTarget(target('key'), (found) => ({ ...command, kind, target: found, ...rotation }))
    }
    case 'revokeKey':
      return onTarget(target('key'), (found) => ({ ...command, kind, target: found }))
    case 'revokeToken':
      return onTarget(target('token'), (found) => ({ ...command, kind, target: found }))
    case 'revokeLink':
      return onTarget(target('link'), (found) => ({ ...command, kind, target: found }))
    case 'revokeSession':
      return onTarget(target('session'), (found) => ({ ...command, kind, target: found }))
    case 'issueToken': {
      const businesses = choose([undefined, ['A'], ['B'], ['A', 'B']], which)
      return { ...command, kind, scopes: choose(SCOPES, other), businesses, expiresMs }
    }
    case 'createLink': {
      const ttlMs = choose([5 * MINUTE_MS, 2 * 60 * MINUTE_MS, DAY_MS], which)
      return { ...command, kind, business, scopes: choose(LINK_SCOPES, other), ttlMs }
    }
    case 'signIn': {
      const code = other % 3 === 0 ? target('code') : undefined
      const credential = code ?? target('token', 'code', 'link') ?? ADMIN
      const replaces = other % 5 === 0 ? target('session') : undefined
      return { ...command, kind, credential: which % 9 === 0 ? ADMIN : credential, replaces }
    }
    case 'signOut':
      return onTarget(target('session'), (session) => ({ ...command, kind, session }))
    case 'move':
      return { ...command, kind, toMs: momentOf(world, which, other, at) }
  }
}

/** A moment at which something ends or may be written again, the one just before it, or some time later or earlier. */
function momentOf(world: World, which: number, other: number, at: number): number {
  const ends = [...world.credentials.values()].flatMap(({ expiresMs, lastUsedMs, kind }) => [
    ...(expiresMs === NEVER ? [] : [expiresMs]),
    ...(lastUsedMs === undefined ? [] : [lastUsedMs + MINUTE_MS]),
    ...(kind === 'session' ? [lastUsedMs! + IDLE_MS] : []),
  ])
  const later = world.nowMs[at]! + choose(STEPS_MS, which)
  const isEnd = ends.length > 0 && other % 2 === 0
  const toMs = isEnd ? choose(ends, which) - (other % 4 === 0 ? 1 : 0) : later
  return Math.min(Math.max(toMs, MOVED_MS.min), MOVED_MS.max)
}

const story = fc.array(intent, { minLength: 1, maxLength: 40 })

type NewToken = Omit<Extract<Command, { kind: 'issueToken' }>, 'kind' | 'by' | 'at'>
const token = (at: number, given: NewToken): Command => {
  return { kind: 'issueToken', by: ADMIN, at, ...given }
}
const signingIn = (name: string, at: number, credential: string): Command => {
  return { kind: 'signIn', by: ADMIN, at, name, credential, replaces: undefined }
}
const OF_A = { by: ADMIN, business: 'A' }

/** Credentials that each story begins with. */
const FIRST: readonly Command[] = [
  token(0, { name: 'T', scopes: ['admin'], businesses: undefined, expiresMs: 90 * MINUTE_MS }),
  token(1, { name: 'TA', scopes: ['admin'], businesses: ['A'], expiresMs: NEVER }),
  token(0, { name: 'TB', scopes: ['read'], businesses: ['B'], expiresMs: 5 * MINUTE_MS }),
  { kind: 'createCode', by: 'TB', at: 0, name: 'C' },
  {
    kind: 'importKey',
    ...OF_A,
    at: 1,
    name: 'I',
    live: true,
    text: 'k0',
    scopes: [],
    cidrs: [],
    expiresMs: DAY_MS,
  },
  { kind: 'createLink', ...OF_A, at: 0, name: 'L', scopes: ['read'], ttlMs: DAY_MS },
  signingIn('S', 1, 'T'),
  signingIn('SL', 0, 'L'),
]

type Run = (...commands: readonly Command[]) => Promise<void>
/** Plays an intent that is several commands. */
type Play = (world: World, intent: Intent, name: string, run: Run) => Promise<void>

let count = 0

/** Plays a story. If it fails, the error lists all commands. */
async function play(intents: readonly Intent[]): Promise<void> {
  const { durablePool } = db.database
  count += 1
  const startMs = Date.now() + 10 * DAY_MS
  const service = { durablePool, instances, prefix: `m${SEED}-${count}`, startMs }
  const drive = await startAccess(service, BUSINESSES)
  const done: string[] = []
  const run: Run = async (...commands) => {
    done.push(commands.map((each) => JSON.stringify(each)).join('  &  '))
    await runAccess(drive, commands)
  }
  await recount(done, async () => {
    for (const command of FIRST) await run(command)
    for (const [index, each] of intents.entries()) await runIntent(drive, each, `n${index}`, run)
    await compareLists(run)
  })
  await keepKeyUses(drive)
}

async function runIntent(drive: AccessDrive, each: Intent, name: string, run: Run): Promise<void> {
  const [world] = drive.worlds as [World]
  if (each.kind === 'crowd') return crowd(world, each, name, run)
  if (each.kind === 'outlive') return outlive(world, each, name, run)
  if (each.kind === 'withdraw') return withdraw(world, each, name, run)
  const command = toCommand(world, each.kind, each, name)
  if (command === undefined) return
  const kinds = PAIRS.get(each.kind)
  // A token is looked up before the session begins, so no order of whole calls explains two that sign in with it.
  const isOfToken =
    'credential' in command &&
    !/^(code|link)$/.test(world.credentials.get(command.credential)?.kind ?? '')
  if (!each.isPaired || kinds === undefined || isOfToken) return run(command)
  const again = { ...each, at: 1 - each.at, other: each.other + 1 }
  const second = toCommand(world, choose(kinds, each.by), again, `${name}b`)!
  // To replace a session is a change of its own.
  const same =
    'credential' in command ? { credential: command.credential, replaces: undefined } : {}
  const pair = [command, second].map((one) => ({ ...one, ...same, by: ADMIN }) as Command)
  await run(...pair)
}

/** Goes to the moment at which a credential or its token ends, or just before it, and uses the credential. */
const outlive: Play = async (world, { which, other, at, flag }, name, run) => {
  const ends = [...world.credentials.values()].flatMap((each) => {
    const { kind, lastUsedMs, parent, expiresMs } = each
    const parentMs = world.credentials.get(parent)?.expiresMs ?? NEVER
    const idleMs = kind === 'session' ? lastUsedMs! + IDLE_MS : NEVER
    const endMs = Math.min(expiresMs, parentMs, idleMs)
    return endMs === NEVER || each.count > 1 ? [] : [{ each, endMs }]
  })
  const { each, endMs } = choose(ends, which)
  const toMs = Math.min(endMs - (flag ? 1 : 0), MOVED_MS.max)
  await run({ kind: 'move', by: ADMIN, at, toMs })
  await run(useOf(each, at, other, name))
  if (!flag) return
  await run({ kind: 'move', by: ADMIN, at, toMs: Math.min(endMs, MOVED_MS.max) })
  if (each.kind !== 'code') await run(useOf(each, at, other, `${name}b`))
}

/** What a credential is for. */
function useOf({ kind, name: by }: Credential, at: number, other: number, name: string): Command {
  const isOpened = kind === 'code' || kind === 'link' || (kind === 'token' && other % 4 === 0)
  if (isOpened) return { kind: 'signIn', by: ADMIN, at, name, credential: by, replaces: undefined }
  if (kind === 'key') return { kind: 'listEvents', by, at, from: choose(ADDRESSES, other) }
  return { kind: 'getCaller', by, at }
}

const REVOKED_BY = {
  key: 'revokeKey',
  token: 'revokeToken',
  link: 'revokeLink',
  session: 'revokeSession',
} as const

/** A credential that an instance has just seen is revoked, maybe with its token, and its clock moves a little. */
const withdraw: Play = async (world, { which, other, by, at, flag }, name, run) => {
  const known = [...world.credentials.values()].filter(({ count: copies }) => copies === 1)
  const each = choose(known, which)
  const isCode = each.kind === 'code'
  const parent = world.credentials.get(each.parent)
  if (isCode && parent === undefined) return
  const target = parent !== undefined && (isCode || by % 2 === 0) ? parent : each
  const revoked = target.kind as keyof typeof REVOKED_BY
  if (!isCode) await run(useOf(each, at, other, name))
  if (each.kind === 'session' && other % 3 === 0) {
    await run({ kind: 'signOut', by: ADMIN, at, session: each.name })
    return run(useOf(each, at, other, name))
  }
  const revocation = { by: ADMIN, at: flag ? at : 1 - at, target: target.name }
  await run({ kind: REVOKED_BY[revoked], ...revocation })
  const toMs = world.nowMs[at]! + choose([-1_000, -MINUTE_MS, 500, 1_000], other)
  await run({ kind: 'move', by: ADMIN, at, toMs: Math.max(toMs, MOVED_MS.min) })
  await run(useOf(each, at, other, `${name}b`))
  if (each.imported === undefined) return
  const again = { business: each.businesses![0]!, scopes: [], cidrs: [], expiresMs: NEVER }
  const key = { ...again, live: each.live, text: each.imported }
  await run({ kind: 'importKey', by: ADMIN, at, name: `${name}c`, ...key })
}

/** So many sessions of one caller that there may be no more, or that are over; and one who wants to sign in. */
const crowd: Play = async (world, { which, at, other, by, flag }, name, run) => {
  const all = [...world.credentials.values()]
  const sessions = all.filter((each) => each.kind === 'session' && each.count === 1)
  const { name: session, parent, expiresMs } = choose(sessions, which)
  if (by % 3 === 0) await run({ kind: 'revokeSession', by: ADMIN, at, target: session })
  await run({ kind: 'copySession', by: ADMIN, at, name, session, count: 98 + (other % 3) })
  if (by % 3 === 1) await run({ kind: 'move', by: ADMIN, at, toMs: expiresMs - (flag ? 1 : 0) })
  const isKept = parent === ADMIN || world.credentials.has(parent)
  const signIn = { kind: 'signIn', by: ADMIN, at, credential: parent, replaces: undefined } as const
  if (!isKept) return
  await run({ ...signIn, name: `${name}b` })
  await run({ ...signIn, name: `${name}c` })
}

/** Whatever an operator lists is what the model says, at either instance. */
async function compareLists(run: (command: Command) => Promise<void>): Promise<void> {
  const at = count % 2
  const lists = { by: ADMIN, at, pageSize: at === 0 ? 0 : 7 }
  for (const business of BUSINESSES) await run({ ...lists, kind: 'listKeys', business })
  for (const active of [true, false, undefined]) await run({ ...lists, kind: 'listTokens', active })
  for (const active of [true, false]) {
    await run({ ...lists, kind: 'listSessions', active })
    await run({ ...lists, kind: 'listLinks', business: undefined, active })
  }
  await run({ ...lists, kind: 'listAudit', filter: {} })
}

/** When keys were last used, in epoch milliseconds by id; undefined: never. Instances write it when they stop. */
const keyUses = new Map<string, number | undefined>()

async function keepKeyUses({ worlds, ids, startMs }: AccessDrive): Promise<void> {
  for (const { kind, name, lastUsedMs } of worlds[0]!.credentials.values()) {
    if (kind !== 'key') continue
    keyUses.set(ids.get(name)!, lastUsedMs === undefined ? undefined : startMs + lastUsedMs)
  }
}

test(
  'a credential does what the model says, at any instance and at any time, and leaves its traces once',
  async () => {
    await expectStories(story, play)
    console.log(`${count} stories`)
    for await (const each of started[0]!.client(AdminService).verifyAudit({})) {
      expect(each.firstBreak).toBeUndefined()
    }
    await Promise.all(started.map((each) => each.close()))
    started = []
    const { rows } = await db.database.durablePool.query<{ id: string; atMs: number | null }>(
      `select id, round(date_part('epoch', last_used_at) * 1000) as "atMs" from api_key`,
    )
    for (const { id, atMs } of rows) {
      const usedMs = keyUses.get(id)
      // An instance reports a key once for as long as it trusts it, which is under a second.
      const isWritten =
        usedMs === undefined ? atMs === null : atMs && Math.abs(atMs - usedMs) < 1_000
      expect([id, usedMs, atMs, isWritten]).toEqual([id, usedMs, atMs, true])
    }
  },
  (MODEL_SECONDS + 300) * 1_000,
)
