import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { DAY_MS } from '../../src/core/durations.ts'
import { useDatabase } from '../support/database.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { createMovedClock, type MovedClock } from '../support/moved-clock.ts'
import { SEED } from '../support/random.ts'
import { compare, glance } from './compare.ts'
import {
  connectTo,
  endDrive,
  type ModelInstance,
  runTogether,
  startDrive,
  textOf,
} from './drive.ts'
import type { Command, NewAccount, Report, SettlementTerms, Split, Terms, World } from './money.ts'
import { expectStories, MODEL_SECONDS, MODEL_TOGETHER, recount, weighted } from './try-stories.ts'

const db = useDatabase()
let clock: MovedClock
let started: readonly Instance[] = []
let instances: readonly ModelInstance[]

beforeAll(async () => {
  clock = await createMovedClock(db.database.durablePool)
  const ahead = { now: () => clock.now() + 3_600_000 }
  started = [
    // The clocks move together with the database's, so they are compared at the start only.
    await startInstance(db.url, {}, undefined, clock, DAY_MS),
    await startInstance(db.url, {}, undefined, ahead, DAY_MS),
  ]
  instances = started.map(connectTo)
})

afterAll(async () => {
  for (const each of started) await each.close()
})

const BUSINESSES = ['A', 'B', 'C'] as const
/** Of which some are what accounts expect, and some have a fee of half a kobo. */
const AMOUNTS = [1n, 9_999n, 50_000n, 100_000n, 12_345_678n] as const
/** Numbers that no account has. */
const NOWHERE = ['0000000001', '0000000002'] as const
const SESSIONS = Array.from({ length: 8 }, (_, index) => `s${index}`)

const business = fc.constantFrom(...BUSINESSES)
const amount = fc.constantFrom(...AMOUNTS)

const split: fc.Arbitrary<Split | undefined> = fc.option(
  fc.record({
    bearer: fc.constantFrom('OWNER' as const, 'SHARED' as const),
    shares: fc.uniqueArray(
      fc.oneof(
        fc.record({
          business,
          basisPoints: fc.constantFrom(1, 3_333, 5_000),
          amountMinor: fc.constant(0n),
        }),
        fc.record({ business, basisPoints: fc.constant(0), amountMinor: amount }),
        fc.record({ business, basisPoints: fc.constant(10_000), amountMinor: fc.constant(0n) }),
      ),
      { selector: (share) => share.business, minLength: 1, maxLength: 2 },
    ),
  }),
  { nil: undefined },
)

/** A split that may be set: no business shares with itself, and the percentages are at most 100. */
function allowed(each: Split | undefined, owner: string): Split | undefined {
  const shares = (each?.shares ?? []).filter((share) => share.business !== owner)
  const total = shares.reduce((points, share) => points + share.basisPoints, 0)
  return each && shares.length > 0 && total <= 10_000 ? { ...each, shares } : undefined
}

const settlementTerms: fc.Arbitrary<SettlementTerms> = fc
  .record({
    schedule: fc.constantFrom('DAILY' as const, 'WORKING_DAYS' as const),
    days: fc.integer({ min: 1, max: 3 }),
    cutOffHour: fc.constantFrom(0, 9, 23),
    flatMinor: fc.constantFrom(0n, 5_000n, 1_000_000n),
    basisPoints: fc.constantFrom(0, 150, 10_000),
    capMinor: fc.constantFrom(0n, 200_000n),
  })
  .map(({ days, ...each }) => ({
    ...each,
    workingDays: each.schedule === 'DAILY' ? 0 : days,
  }))

const terms: fc.Arbitrary<Terms | undefined> = fc.option(
  fc.oneof(
    fc.record({
      amountMinor: fc.constantFrom(50_000n, 100_000n),
      rule: fc.constantFrom('EXACT' as const, 'AT_LEAST' as const, 'AT_MOST' as const),
      singleUse: fc.boolean(),
      expires: fc.boolean(),
    }),
    fc.record({
      amountMinor: fc.constant(0n),
      rule: fc.constant('ANY' as const),
      singleUse: fc.constant(true),
      expires: fc.boolean(),
    }),
  ),
  { nil: undefined },
)

const newAccount: fc.Arbitrary<NewAccount> = fc
  .record({ business, live: fc.boolean(), terms, split })
  .map((each) => ({ ...each, split: allowed(each.split, each.business) }))

/** The intent of a caller. The world determines the account or payment when the command runs. */
const intent = fc.record({
  kind: weighted({
    record: 24,
    recordMany: 3,
    simulate: 3,
    import: 3,
    pass: 9,
    reverse: 2,
    accept: 2,
    return: 2,
    completeReturn: 2,
    settle: 2,
    assign: 2,
    returnUnmatched: 2,
    resolveConflict: 2,
    setTerms: 1,
    setSplit: 1,
    close: 1,
    toggleHoliday: 1,
    archive: 1,
    settleAll: 1,
  }),
  which: fc.nat(99),
  business,
  live: fc.boolean(),
  split,
  terms: settlementTerms,
  hours: fc.constantFrom(1, 7, 24, 50),
  reports: fc.array(
    fc.record({
      session: fc.constantFrom(...SESSIONS),
      to: fc.nat(99),
      amountMinor: amount,
      status: fc.constantFrom(...(['SUCCESS', 'SUCCESS', 'SUCCESS', 'PENDING', 'FAILED'] as const)),
      late: fc.boolean(),
      isRepeat: fc.boolean(),
    }),
    { minLength: 1, maxLength: 3 },
  ),
})
type Intent = typeof intent extends fc.Arbitrary<infer Each> ? Each : never

const choose = <Item>(items: readonly Item[], which: number): Item | undefined =>
  items[which % items.length]

/** The command of an intent. If the world has no object for it, a command that creates one. */
function toCommand(world: World, focus: number, { kind, which, ...more }: Intent): Command {
  const accounts = [...world.accounts.values()]
  const places = [...accounts.map(({ name }) => name), ...NOWHERE]
  const reported = [
    ...[...world.payments.values()].map(({ reportedTo, ...each }) => ({ ...each, to: reportedTo })),
    ...world.unmatched.map(({ report }) => report),
  ]
  const reports = more.reports.map(({ isRepeat, to, ...each }): Report => {
    const before = isRepeat ? choose(reported, to) : undefined
    const into = to % 3 === 0 ? choose(places, to)! : choose(accounts, focus)!.name
    if (before === undefined) return { ...each, to: into }
    return { ...each, session: before.session, to: before.to, amountMinor: before.amountMinor }
  })
  const known = choose([...world.payments.keys()], which)
  const unmatched = choose(world.unmatched, which)?.report
  const account = choose(accounts, which)!
  const record = { kind: 'record', report: reports[0]! } as const
  const unknown = { kind: 'record', report: { ...reports[0]!, to: NOWHERE[0] } } as const
  switch (kind) {
    case 'record':
      return record
    case 'simulate':
      return { kind, report: { ...reports[0]!, status: 'SUCCESS', late: false } }
    case 'recordMany': {
      // Of one payment, or of several.
      const states = (['PENDING', 'FAILED', 'SUCCESS'] as const).map((status) => {
        return { ...reports[0]!, status }
      })
      return { kind, reports: more.live ? states : reports }
    }
    case 'settle':
      return { kind, business: more.business, live: more.live }
    case 'setTerms':
      return { kind, business: more.business, terms: more.terms }
    case 'toggleHoliday':
      return { kind, day: Math.floor(world.hour / 24) + 1 + (which % 4) }
    case 'pass':
      return { kind, hours: more.hours }
    case 'archive':
      return { kind }
    case 'settleAll':
      return { kind, live: more.live }
    case 'setSplit':
      return { kind, account: account.name, split: allowed(more.split, account.business) }
    case 'close':
      return { kind, account: account.name }
    case 'assign':
      if (unmatched === undefined) return unknown
      return account.live ? { kind, report: unmatched, account: account.name } : unknown
    case 'returnUnmatched':
      return unmatched ? { kind, report: unmatched } : unknown
    case 'resolveConflict': {
      const conflict = choose(world.conflicts, which)
      return conflict ? { kind, conflict } : record
    }
    case 'import': {
      const [first] = reports as [Report]
      const report = world.accounts.has(first.to) ? first : { ...first, to: account.name }
      const status = report.status === 'PENDING' ? 'REVERSED' : report.status
      return { kind, report, status, settled: status !== 'FAILED' && more.live }
    }
    case 'reverse':
      return known === undefined ? record : { kind, payment: known }
    default: {
      // What is held is decided, and now and then what is not.
      const held = [...world.payments].filter(([, { hold }]) => hold !== undefined)
      const payment = which % 4 === 0 ? known : (choose(held, which)?.[0] ?? known)
      return payment === undefined ? record : { kind, payment }
    }
  }
}

/**
 * Commands that do not run concurrently with others: the payments of one call are recorded one by one, so no order of whole
 * calls explains their results, and due payments may be settled at any time.
 */
const ALONE = new Set(['recordMany', 'setTerms', 'toggleHoliday', 'pass', 'archive', 'settleAll'])

const story = fc.record({
  terms: fc.array(settlementTerms, { minLength: 3, maxLength: 3 }),
  accounts: fc.array(newAccount, { minLength: 2, maxLength: 4 }),
  /** What is wanted at the same time, one after the other. */
  steps: fc.array(fc.array(intent, { minLength: 1, maxLength: MODEL_TOGETHER }), {
    minLength: 1,
    maxLength: 30,
    size: 'max',
  }),
  settlesAtEnd: fc.boolean(),
  paged: business,
  /** The account that most reports are for. */
  focus: fc.nat(99),
})
type Story = typeof story extends fc.Arbitrary<infer Each> ? Each : never

let count = 0
let verified = ''

/** @param from the cursor of an earlier verification; the empty one verifies all */
async function verify(from = verified): Promise<void> {
  for await (const each of started[0]!.client(SettlementService).verifyLedger({ from })) {
    expect(each.discrepancies).toEqual([])
    verified = each.cursor
  }
}

/** Plays a story. If it fails, the error lists all commands. */
async function play({ terms, accounts, steps, settlesAtEnd, paged, focus }: Story): Promise<void> {
  const { durablePool } = db.database
  count += 1
  const prefix = `m${SEED}-${count}`
  const drive = await startDrive({ durablePool, instances, clock, prefix }, BUSINESSES, accounts)
  const done = accounts.map((each, index) => `${each.business}${index}: ${textOf(each)}`)
  const runAll = async (commands: readonly Command[]) => {
    done.push(commands.map(textOf).join('  &  '))
    await runTogether(drive, commands)
  }
  await recount(done, async () => {
    await runAll(
      terms.map((each, index) => ({ kind: 'setTerms', business: BUSINESSES[index]!, terms: each })),
    )
    for (const intents of steps) {
      const commands = intents.map((each) => toCommand(drive.worlds[0]!, focus, each))
      for (const each of commands.filter(({ kind }) => ALONE.has(kind))) await runAll([each])
      const others = commands.filter(({ kind }) => !ALONE.has(kind))
      if (others.length > 0) await runAll(others)
      await glance(drive)
    }
    if (settlesAtEnd) {
      for (const name of BUSINESSES) {
        for (const live of [true, false]) await runAll([{ kind: 'settle', business: name, live }])
      }
    }
    await compare(drive, { paged })
    await endDrive(drive)
    // It reads all balances.
    if (count % 10 === 0) await verify()
  })
}

test(
  'money is where the model says, whatever callers do and in whatever order',
  async () => {
    await expectStories(story, play)
    await verify('')
    console.log(`${count} stories`)
  },
  (MODEL_SECONDS + 300) * 1_000,
)
