import { afterAll, beforeAll, expect, test } from 'vitest'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { DAY_MS } from '../../src/core/durations.ts'
import { useDatabase } from '../support/database.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { createMovedClock, type MovedClock } from '../support/moved-clock.ts'
import { type Gate, overlap, startGate } from '../support/races.ts'
import { generator, SEED } from '../support/random.ts'
import { compare } from './compare.ts'
import {
  connectTo,
  type Drive,
  execute,
  keepExplaining,
  type ModelInstance,
  run,
  startDrive,
  textOf,
} from './drive.ts'
import {
  addAccount,
  type Command,
  type NewAccount,
  newBusiness,
  newWorld,
  type Report,
  step,
  type World,
} from './money.ts'
import { MODEL_SECONDS } from './try-stories.ts'

/**
 * Two changes of a payment, in each of its states, at two instances: the first change is held at each of its
 * statements in turn, while the second change runs until it has ended or waits for a lock. The model determines the pairs:
 * the first command changes something in that state.
 */

const db = useDatabase()
let clock: MovedClock
let gate: Gate
let held: Instance
let free: Instance
let instances: { held: ModelInstance; free: ModelInstance }

beforeAll(async () => {
  // An entry of the audit log is the end of a change: the commit after it is held.
  clock = await createMovedClock(db.database.durablePool)
  gate = await startGate(db.url, /\baudit_(entry|head|mac)\b/)
  // The clocks move together with the database's, so they are compared at the start only.
  held = await startInstance(gate.url, {}, undefined, clock, DAY_MS)
  free = await startInstance(db.url, {}, undefined, clock, DAY_MS)
  instances = { held: connectTo(held), free: connectTo(free) }
  await learn()
})

afterAll(async () => {
  await held?.close()
  await free?.close()
  await gate?.close()
})

const SHARED: NewAccount['split'] = {
  shares: [{ business: 'B', basisPoints: 3_333, amountMinor: 0n }],
  bearer: 'OWNER',
}
const EXACTLY: NewAccount['terms'] = {
  amountMinor: 50_000n,
  rule: 'EXACT',
  singleUse: true,
  expires: false,
}
/** They are named A0, A1 and A2. */
const ACCOUNTS: readonly NewAccount[] = [
  { business: 'A', live: true, terms: undefined, split: SHARED },
  { business: 'A', live: true, terms: EXACTLY, split: undefined },
  { business: 'A', live: true, terms: undefined, split: undefined },
]
const BUSINESSES = ['A', 'B']
const NOWHERE = '0000000001'

const report = (to: string, more: Partial<Report> = {}): Report => ({
  session: 's',
  to,
  amountMinor: 50_001n,
  status: 'SUCCESS',
  late: false,
  ...more,
})
const record = (to: string, status: Report['status'] = 'SUCCESS', session = 's'): Command => ({
  kind: 'record',
  report: report(to, { status, session }),
})
const change = (kind: 'reverse' | 'accept' | 'return' | 'completeReturn'): Command => ({
  kind,
  payment: 'live s',
})
const acceptFirst: Command = { kind: 'accept', payment: 'live first' }
const settle: Command = { kind: 'settle', business: 'A', live: true }
const assign = (account: string, status: Report['status'] = 'SUCCESS'): Command => ({
  kind: 'assign',
  report: report(NOWHERE, { status }),
  account,
})
const bring = (settled: boolean): Command => ({
  kind: 'import',
  report: report('A0'),
  status: 'SUCCESS',
  settled,
})
const returnUnmatched: Command = { kind: 'returnUnmatched', report: report(NOWHERE) }

/** The commands that bring a payment into a state, and the account number that reports name. */
interface State {
  readonly to: string
  readonly by: readonly Command[]
}

const STATES: Readonly<Record<string, State>> = {
  'not reported': { to: 'A0', by: [] },
  'not reported, of a single use': { to: 'A1', by: [] },
  pending: { to: 'A0', by: [record('A0', 'PENDING')] },
  'pending, of a single use': { to: 'A1', by: [record('A1', 'PENDING')] },
  successful: { to: 'A0', by: [record('A0')] },
  failed: { to: 'A0', by: [record('A0', 'FAILED')] },
  settled: { to: 'A0', by: [record('A0'), settle] },
  reversed: { to: 'A0', by: [record('A0'), change('reverse')] },
  held: { to: 'A1', by: [record('A1')] },
  accepted: { to: 'A1', by: [record('A1'), change('accept')] },
  'to be returned': { to: 'A1', by: [record('A1'), change('return')] },
  imported: { to: 'A0', by: [bring(false)] },
  unmatched: { to: NOWHERE, by: [record(NOWHERE)] },
  'unmatched, pending': { to: NOWHERE, by: [record(NOWHERE, 'PENDING')] },
  'unmatched, reported in all states': {
    to: NOWHERE,
    by: [record(NOWHERE, 'PENDING'), record(NOWHERE, 'FAILED'), record(NOWHERE)],
  },
  'unmatched and assigned': { to: NOWHERE, by: [record(NOWHERE), assign('A0')] },
  'unmatched, returned as pending, reported as successful': {
    to: NOWHERE,
    by: [
      record(NOWHERE, 'PENDING'),
      { kind: 'returnUnmatched', report: report(NOWHERE, { status: 'PENDING' }) },
      record(NOWHERE),
    ],
  },
  'paid into an account that an acceptance has used up': {
    to: 'A1',
    by: [record('A1', 'SUCCESS', 'first'), acceptFirst, record('A1')],
  },
  'unmatched and returned': { to: NOWHERE, by: [record(NOWHERE), returnUnmatched] },
}

/** The commands about a payment. */
const commandsFor = (to: string): readonly Command[] => [
  ...(['SUCCESS', 'PENDING', 'FAILED'] as const).map((status) => record(to, status)),
  { kind: 'record', report: report(to, { amountMinor: 50_000n }) },
  { kind: 'record', report: report('A2') },
  ...(to === 'A1' ? [record('A1', 'SUCCESS', 'another')] : []),
  { kind: 'simulate', report: report('A0') },
  ...(['reverse', 'accept', 'return', 'completeReturn'] as const).map(change),
  settle,
  { kind: 'settleAll', live: true },
  { kind: 'settleAll', live: false },
  { kind: 'preview', business: 'A', live: true },
  {
    kind: 'setTerms',
    business: 'A',
    terms: {
      flatMinor: 100n,
      basisPoints: 150,
      capMinor: 0n,
      schedule: 'WORKING_DAYS',
      workingDays: 30,
      cutOffHour: 0,
    },
  },
  { kind: 'setSplit', account: 'A0', split: undefined },
  { kind: 'close', account: to === NOWHERE ? 'A0' : to },
  assign('A0'),
  assign('A2'),
  assign('A0', 'PENDING'),
  returnUnmatched,
  bring(false),
  bring(true),
]

/** Whether a command of the other mode must not wait for those of this one. */
const isIndependent = (command: Command) => command.kind === 'settleAll' && !command.live

/** Whether callers or the world show which of two commands came first. */
function interact(world: World, first: Command, second: Command): boolean {
  const outcomes = ([one, other]: readonly [Command, Command]) =>
    step(world, one).flatMap((before) =>
      step(before.world, other).map((after) => {
        const answers =
          one === first ? [before.answer, after.answer] : [after.answer, before.answer]
        return `${answers} ${textOfWorld(after.world)}`
      }),
    )
  const reversed = new Set(outcomes([second, first]))
  return first === second || outcomes([first, second]).some((outcome) => !reversed.has(outcome))
}

/** Whether a command names something that exists. */
function isPossible(world: World, command: Command): boolean {
  if ('payment' in command) return world.payments.has(command.payment)
  if (command.kind !== 'assign' && command.kind !== 'returnUnmatched') return true
  const { status } = command.report
  return world.unmatched.some((each) => each.report.status === status)
}

const doesChange = (world: World, command: Command) =>
  step(world, command).some((next) => textOfWorld(next.world) !== textOfWorld(world))

const textOfWorld = (world: World) =>
  JSON.stringify(
    [...world.accounts, ...world.businesses, ...world.payments, world.unmatched],
    (_key, value) => (typeof value === 'bigint' ? `${value}` : value),
  )

/** The state of a payment, and two commands about it. */
type Pair = readonly [name: string, first: Command, second: Command]

let count = 0

async function prepare(by: readonly Command[]): Promise<Drive> {
  count += 1
  const drive = await startDrive(
    {
      durablePool: db.database.durablePool,
      clock,
      instances: [instances.free],
      prefix: `r${SEED}-${count}`,
    },
    BUSINESSES,
    ACCOUNTS,
  )
  for (const command of by) await run(drive, command)
  return drive
}

/**
 * The pairs of commands in a state: the first command changes something, and the results depend on the order, or the second
 * command must not wait for the first.
 */
function pairsOf(name: string, { to }: State, world: World): Pair[] {
  const possible = commandsFor(to).filter((command) => isPossible(world, command))
  return possible
    .filter((command) => doesChange(world, command))
    .flatMap((first) =>
      possible
        .filter((second) => isIndependent(second) || interact(world, first, second))
        .map((second) => [name, first, second] as const),
    )
}

/** A call has no more statements. */
const STATEMENTS_MAX = 30

/** @returns at how many statements the first command was held */
async function race(name: string, first: Command, second: Command): Promise<number> {
  for (let nth = 0; nth < STATEMENTS_MAX; nth++) {
    const drive = await prepare(STATES[name]!.by)
    const atHeld = { ...drive, instances: [instances.held] }
    let at: string | undefined
    try {
      const { held, results } = await overlap(
        { gate, pool: drive.durablePool },
        nth,
        () => execute(atHeld, first),
        () => execute(drive, second),
      )
      at = held
      keepExplaining(drive, [first, second], results)
      await compare(drive, { modes: [true], paged: '' })
    } catch (error) {
      const text = `a payment that is ${name}:\n${textOf(first)}, held at statement ${nth}:\n  ${at}\nand ${textOf(second)}`
      throw new Error(`${text}\n${(error as Error).message}`, { cause: error })
    }
    if (at === undefined) return nth
  }
  throw new Error(`${textOf(first)} has more statements than expected`)
}

/** States whose commands make an instance do all kinds of its own work. */
const LEARNT = ['settled', 'accepted', 'unmatched and assigned', 'imported']

/** Lets the held instance do all its own work once, which is not held afterwards. */
async function learn(): Promise<void> {
  for (const name of LEARNT) {
    const { to, by } = STATES[name]!
    const drive = await prepare(by)
    for (const command of commandsFor(to)) {
      if (isPossible(drive.worlds[0]!, command)) await execute(drive, command)
    }
  }
  gate.ignorePassed()
}

/** The world of the model in a state. */
function worldIn({ by }: State): World {
  const world = newWorld(0)
  for (const name of BUSINESSES) world.businesses.set(name, newBusiness())
  for (const [index, account] of ACCOUNTS.entries()) addAccount(world, `A${index}`, account)
  return by.reduce((before, command) => step(before, command)[0]!.world, world)
}

async function verify(): Promise<void> {
  const messages = free.client(SettlementService).verifyLedger({})
  for await (const { discrepancies } of messages) expect(discrepancies).toEqual([])
}

test(
  'two changes of one payment that overlap at any statement are as one after the other',
  async () => {
    const pairs = Object.entries(STATES).flatMap(([name, state]) => {
      return pairsOf(name, state, worldIn(state))
    })
    const random = generator(SEED)
    const untilMs = Date.now() + (MODEL_SECONDS / 2) * 1_000
    let [tried, met] = [0, 0]
    while (pairs.length > 0 && (tried === 0 || Date.now() < untilMs)) {
      const [pair] = pairs.splice(Math.floor(random() * pairs.length), 1)
      met += await race(...pair!)
      tried += 1
    }
    console.log(`SEED=${SEED}: ${tried} of ${tried + pairs.length} pairs, ${met} statements`)
    expect(met).toBeGreaterThan(0)
    await verify()
  },
  (MODEL_SECONDS + 300) * 1_000,
)
