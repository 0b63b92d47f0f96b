import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { useService } from '../support/service.ts'
import { compare } from './compare.ts'
import {
  connectTo,
  type ModelInstance,
  type NewAccount,
  runTogether,
  startDrive,
  textOf,
} from './drive.ts'
import type { Command, Fee, Report, Split, Terms, World } from './money.ts'
import { SECONDS, SEED, tryStories } from './try-stories.ts'

/** How many commands run at the same time. */
const TOGETHER = Number(process.env['MODEL_TOGETHER'] ?? 1)

const service = useService()
let second: Instance
let instances: readonly ModelInstance[]

beforeAll(async () => {
  second = await startInstance(service.url)
  instances = [connectTo(service), connectTo(second)]
})

afterAll(async () => {
  await second?.close()
})

const BUSINESSES = ['A', 'B', 'C'] as const
/** Of which some are what accounts expect, and some have a fee of half a kobo. */
const AMOUNTS = [1n, 1_100n, 9_999n, 50_000n, 100_000n, 12_345_678n] as const
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

const fee: fc.Arbitrary<Fee> = fc.record({
  flatMinor: fc.constantFrom(0n, 5_000n, 1_000_000n),
  basisPoints: fc.constantFrom(0, 150, 10_000),
  capMinor: fc.constantFrom(0n, 200_000n),
})

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

/** What a caller wants to do. Which account or payment that is, the world says by then. */
const intent = fc.record({
  kind: fc.oneof(
    { weight: 8, arbitrary: fc.constant('record' as const) },
    {
      weight: 3,
      arbitrary: fc.constantFrom(...(['recordMany', 'simulate', 'import'] as const)),
    },
    {
      weight: 6,
      arbitrary: fc.constantFrom(
        ...(['reverse', 'accept', 'return', 'completeReturn'] as const),
        ...(['settle', 'assign', 'returnUnmatched'] as const),
      ),
    },
    {
      weight: 2,
      arbitrary: fc.constantFrom('setFee' as const, 'setSplit' as const, 'close' as const),
    },
  ),
  which: fc.nat(99),
  business,
  live: fc.boolean(),
  split,
  fee,
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

/** The command of an intent; undefined if the world has nothing that it could be about. */
function toCommand(world: World, { kind, which, ...more }: Intent): Command | undefined {
  const accounts = [...world.accounts.values()]
  const places = [...accounts.map(({ name }) => name), ...NOWHERE]
  const reported = [
    ...[...world.payments.values()].map(({ reportedTo, ...each }) => ({ ...each, to: reportedTo })),
    ...world.unmatched.map(({ report }) => report),
  ]
  const reports = more.reports.map(({ isRepeat, to, ...each }): Report => {
    const before = isRepeat ? choose(reported, to) : undefined
    if (before === undefined) return { ...each, to: choose(places, to)! }
    return { ...each, session: before.session, to: before.to, amountMinor: before.amountMinor }
  })
  const known = choose([...world.payments.keys()], which)
  const unmatched = choose(world.unmatched, which)?.report
  const account = choose(accounts, which)!
  switch (kind) {
    case 'record':
      return { kind, report: reports[0]! }
    case 'simulate':
      return { kind, report: { ...reports[0]!, status: 'SUCCESS', late: false } }
    case 'recordMany':
      return { kind, reports }
    case 'settle':
      return { kind, business: more.business, live: more.live }
    case 'setFee':
      return { kind, business: more.business, fee: more.fee }
    case 'setSplit':
      return { kind, account: account.name, split: allowed(more.split, account.business) }
    case 'close':
      return { kind, account: account.name }
    case 'assign':
      return unmatched && account.live
        ? { kind, report: unmatched, account: account.name }
        : undefined
    case 'returnUnmatched':
      return unmatched && { kind, report: unmatched }
    case 'import': {
      const [first] = reports as [Report]
      const report = world.accounts.has(first.to) ? first : { ...first, to: account.name }
      const status = report.status === 'PENDING' ? 'REVERSED' : report.status
      return { kind, report, status, settled: status !== 'FAILED' && more.live }
    }
    default:
      return known === undefined ? undefined : { kind, payment: known }
  }
}

const story = fc.record({
  fees: fc.array(fee, { minLength: 3, maxLength: 3 }),
  accounts: fc.array(newAccount, { minLength: 2, maxLength: 5 }),
  /** What is wanted at the same time, one after the other. */
  steps: fc.array(fc.array(intent, { minLength: 1, maxLength: TOGETHER }), {
    minLength: 1,
    maxLength: 25,
  }),
  settlesAtEnd: fc.boolean(),
})
type Story = typeof story extends fc.Arbitrary<infer Each> ? Each : never

let count = 0

/** Plays a story, and fails with all that was done. */
async function play({ fees, accounts, steps, settlesAtEnd }: Story): Promise<void> {
  const { pool } = service.database
  count += 1
  const prefix = `m${SEED}-${count}`
  const drive = await startDrive({ pool, instances, prefix }, BUSINESSES, accounts)
  const done = accounts.map((each, index) => `${each.business}${index}: ${textOf(each)}`)
  const runAll = async (commands: readonly Command[]) => {
    done.push(commands.map(textOf).join('  &  '))
    await runTogether(drive, commands)
  }
  try {
    for (const [index, fee] of fees.entries()) {
      await runAll([{ kind: 'setFee', business: BUSINESSES[index]!, fee }])
    }
    for (const intents of steps) {
      const commands = intents.flatMap((each) => toCommand(drive.worlds[0]!, each) ?? [])
      // The payments of one call are recorded one by one, so no order of whole calls explains their answers.
      const batches = commands.filter(({ kind }) => kind === 'recordMany')
      for (const batch of batches) await runAll([batch])
      const others = commands.filter(({ kind }) => kind !== 'recordMany')
      if (others.length > 0) await runAll(others)
    }
    if (settlesAtEnd) {
      for (const name of BUSINESSES) {
        for (const live of [true, false]) await runAll([{ kind: 'settle', business: name, live }])
      }
    }
    await compare(drive)
  } catch (error) {
    throw new Error(`${done.join('\n')}\n${(error as Error).message}`, { cause: error })
  }
}

test(
  'money is where the model says, whatever callers do and in whatever order',
  async () => {
    console.log(`MODEL_SEED=${SEED}`)
    expect(await tryStories(story, play, { seconds: SECONDS, seed: SEED })).toBeUndefined()
    const messages = service.client(SettlementService).verifyLedger({})
    for await (const { discrepancies } of messages) expect(discrepancies).toEqual([])
    console.log(`${count} stories`)
  },
  (SECONDS + 300) * 1_000,
)
