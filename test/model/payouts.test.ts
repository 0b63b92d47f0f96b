import { setTimeout } from 'node:timers/promises'
import { Code, ConnectError } from '@connectrpc/connect'
import fc from 'fast-check'
import { afterAll, beforeAll, test } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { MINUTE_MS } from '../../src/core/durations.ts'
import { grpcClient } from '../support/grpc-client.ts'
import { SEED } from '../support/random.ts'
import { waitFor, waitUntil } from '../support/wait-for.ts'
import { type PayoutDatabase, startPayoutDatabase } from './payout-database.ts'
import {
  BANK_TIMEOUT_MS,
  beneficiaryAt,
  compareBooks,
  decideByBooks,
  everNegative,
  fundBusiness,
  insist,
  type PayoutInstance,
  startPayingBanks,
  startPayoutInstance,
} from './payouts.ts'
import { expectStories, MODEL_SECONDS, recount, weighted } from './try-stories.ts'

/** How many payouts one step requests at most. */
const AT_ONCE = Number(process.env['MODEL_PAYOUTS'] ?? 6)
const COUNT = 3
const FUNDS_MINOR = 1_000_000_000_000n
const MOST_MINOR = FUNDS_MINOR / 2n
/** Longer than the lease of a claim. */
const LEASE_MS = 30_000
/** Whether instances are stopped for longer than a lease by the clock of the machine, which no test can move. */
const IS_LONG = AT_ONCE >= 100

const ends: (() => Promise<void>)[] = []
let database: PayoutDatabase
let banks: Awaited<ReturnType<typeof startPayingBanks>>
const instances: PayoutInstance[] = []

/** The last one's own clock is an hour ahead. */
const start = (index: number) =>
  startPayoutInstance(database.url, banks.environment, {
    aheadMs: index === COUNT - 1 ? 60 * MINUTE_MS : 0,
    approverToken: () => approverToken,
  })
let approverToken = ''

beforeAll(async () => {
  database = await startPayoutDatabase((end) => ends.unshift(end))
  banks = await startPayingBanks(database.clock)
  const started = await Promise.all(Array.from({ length: COUNT }, (_, index) => start(index)))
  instances.push(...started)
  const issued = await grpcClient(AdminService, started[0]!.grpcUrl).issueToken({
    name: 'approver',
    scopes: ['payouts:approve'],
  })
  approverToken = issued.secret
})

afterAll(async () => {
  await Promise.all(instances.map((each) => each.kill()))
  await banks?.close()
  for (const end of ends) await end()
})

const BUSINESSES = 3
const FAULTS = {
  enquire: ['500', 'cut', 'wrong name'],
  send: [
    'hang',
    'hang after',
    'cut',
    'cut after',
    '500',
    '500 after',
    'page',
    'page after',
    'pays later',
    'fails later',
    'returns later',
    'hides',
    'other reference',
    'other amount',
    'insufficient',
    'rejected',
  ],
  find: ['500', 'cut', 'page', 'other reference', 'other amount'],
} as const

const intent = fc.record({
  kind: weighted({
    request: 12,
    fault: 14,
    decide: 4,
    pass: 4,
    pause: 1,
    resume: 2,
    kill: 2,
    crash: 2,
    'power cut': 1,
    freeze: 1,
    failover: 1,
    restore: 1,
  }),
  which: fc.nat(99),
  business: fc.nat(BUSINESSES - 1),
  count: fc.noBias(fc.integer({ min: 1, max: AT_ONCE })),
  /** Some are more than what is left of the funds, or need an approval. */
  amountMinor: fc.constantFrom(1n, 9_999n, 500_000n, 20_000_000n, MOST_MINOR),
  bank: fc.integer({ min: 0, max: 4 }),
  fault: fc
    .constantFrom(...(['enquire', 'send', 'send', 'send', 'find'] as const))
    .chain((operation) =>
      fc.record({
        operation: fc.constant(operation),
        fault: fc.constantFrom(...(FAULTS[operation] as readonly string[])),
      }),
    ),
  minutes: fc.constantFrom(1, 4, 20, 70),
  isDown: fc.boolean(),
})
type Intent = typeof intent extends fc.Arbitrary<infer Each> ? Each : never
const story = fc.array(intent, { minLength: 8, maxLength: IS_LONG ? 40 : 20, size: 'max' })

/** What a caller asks for, again and again if it has to. */
interface Wanted {
  readonly businessId: string
  readonly reference: string
  readonly amountMinor: bigint
  readonly beneficiary: ReturnType<typeof beneficiaryAt>
}

/** The businesses of a story, what was requested so far, and the calls in progress. */
interface Scene {
  readonly prefix: string
  readonly businesses: readonly string[]
  readonly wanted: Wanted[]
  readonly requests: Set<Promise<void>>
  /** How often a request was refused, by the text of the refusal. */
  readonly refused: Map<string, number>
}

let stories = 0
let serial = 0
const counts = { kills: 0, crashes: 0, 'power cuts': 0, freezes: 0, failovers: 0, restores: 0 }

const pool = () => database.pool

/** Requests payouts at any instance, each of them at two now and then. */
function request(scene: Scene, each: Intent): void {
  const code = banks.paying[each.bank]?.code
  const businessId = scene.businesses[each.business] as string
  for (let index = 0; index < each.count; index++) {
    serial += 1
    const reference = `${scene.prefix}-${serial}`
    const beneficiary = beneficiaryAt(code, serial)
    const wanted = { businessId, reference, amountMinor: each.amountMinor, beneficiary }
    scene.wanted.push(wanted)
    ask(scene, wanted, each.which + index)
    if (index % 4 === 0) ask(scene, wanted, each.which + index + 1)
  }
}

function ask({ requests, refused }: Scene, wanted: Wanted, first: number): void {
  const { businessId, beneficiary } = wanted
  const asked = insist(instances, first, async ({ payouts }) => {
    const { resolution } = await payouts.resolveAccountName({ businessId, ...beneficiary })
    await payouts.createPayout({ ...wanted, resolution }).catch((error: unknown) => {
      const { message } = ConnectError.from(error)
      // The clock was moved meanwhile: the caller resolves the name again.
      if (message.includes('has expired')) throw new ConnectError(message, Code.Aborted)
      refused.set(message, (refused.get(message) ?? 0) + 1)
      throw error
    })
  })
    .then(() => undefined)
    .finally(() => requests.delete(asked))
  requests.add(asked)
}

/** Requests again, with the same reference, what the database does not have (any more). */
async function repeatLost(scene: Scene): Promise<void> {
  const { rows } = await pool().query<{ reference: string }>(
    'select reference from payout where business_id = any ($1)',
    [scene.businesses],
  )
  const known = new Set(rows.map(({ reference }) => reference))
  const lost = scene.wanted.filter(({ reference }) => !known.has(reference))
  for (const [index, wanted] of lost.entries()) ask(scene, wanted, index)
}

/** Approves, rejects or cancels some of what may be decided. */
async function decide({ businesses }: Scene, { which, business }: Intent): Promise<void> {
  const { rows } = await pool().query<{ id: string; status: string }>(
    `select id, status from payout where business_id = $1 and status in ('PENDING_APPROVAL', 'APPROVED')
      order by id limit $2`,
    [businesses[business], Math.max(10, AT_ONCE)],
  )
  await Promise.all(
    rows.map(({ id: payoutId, status }, index) =>
      insist(instances, which + index, async (instance) => {
        const { payouts } = instance
        if (status === 'APPROVED') return payouts.cancelPayout({ payoutId })
        return index % 3 === 0
          ? payouts.rejectPayout({ payoutId, note: 'no' })
          : instance.approver.approvePayout({ payoutId })
      }),
    ),
  )
}

/** What an operator stops: a pause of the service itself would need an instance that runs. */
const PAUSE = `insert into payout_pause (scope, target, reason, paused_by, paused_at)
  values ('GLOBAL', '', 'model', 'model', machine_now()) on conflict do nothing`
const RESUME = "delete from payout_pause where scope = 'GLOBAL'"

/** How long a call of a bank and its record take at most, but for what a killed or frozen instance left. */
const QUIET_MS = 20 * BANK_TIMEOUT_MS

/** Waits until nothing is due, and no call of a bank is in progress: a paid payout is due within its lease only then. */
async function quiet(): Promise<void> {
  const until = performance.now() + QUIET_MS
  await waitUntil(async () => {
    const { rowCount } = await pool().query(
      `select from payout where status = 'SUBMITTING' or next_at <= now()
          or status = 'PAID' and next_at < now() + interval '25 s' limit 1`,
    )
    return rowCount === 0 || performance.now() > until
  })
}

/**
 * Lets time pass, once no call of a bank is in progress: the lease of an instance is also measured by a clock that
 * cannot be moved. What a killed instance left stays as it is.
 *
 * @param isDown whether no instance sent meanwhile: a new generation begins
 */
async function pass(minutes: number, isDown: boolean): Promise<void> {
  await quiet()
  await pool().query(PAUSE)
  await quiet()
  await database.clock.move(minutes * MINUTE_MS)
  if (!isDown) {
    await pool().query(`update payout_sender set alive_at = alive_at + interval '1 minute' * $1`, [
      minutes,
    ])
  }
  await pool().query(RESUME)
}

/** Ends an instance as a crash does, and starts another one in its place. */
async function kill(index: number): Promise<void> {
  counts.kills += 1
  await instances[index]!.kill()
  instances[index] = await start(index)
  await endLeases()
}

/** Kills the server of the database. Results of banks that come meanwhile are lost. */
async function crash(): Promise<void> {
  counts.crashes += 1
  await database.crash()
  await endLeases()
}

/** What was claimed by an instance that is gone, or whose result is lost, is taken up. */
const endLeases = () => database.clock.move(LEASE_MS)

/**
 * Requests payouts, and interrupts all instances at the moment at which a bank gets a transfer. The claims are
 * committed, and no result is.
 *
 * @returns false if none was sent
 */
async function interrupt(scene: Scene, each: Intent, signal: 'SIGKILL' | 'SIGSTOP') {
  const interrupted = Promise.withResolvers<true>()
  banks.atNextTransfer(() => {
    for (const { child } of instances) child.kill(signal)
    interrupted.resolve(true)
    if (each.isDown) throw new Error('the bank never has it')
  })
  await pool().query(RESUME)
  request(scene, { ...each, amountMinor: 1n })
  const sent = Promise.all(scene.requests).then(quiet)
  const isInterrupted = await Promise.race([interrupted.promise, sent.then(() => false)])
  banks.atNextTransfer(undefined)
  return isInterrupted
}

/** All instances, and the server now and then, end while a transfer is in progress. */
async function cutPower(scene: Scene, each: Intent): Promise<void> {
  if (!(await interrupt(scene, each, 'SIGKILL'))) return
  counts['power cuts'] += 1
  await Promise.all(instances.map((instance) => instance.kill()))
  if (each.which % 2 === 0) await crash()
  await restart()
  await endLeases()
}

async function restart(): Promise<void> {
  const started = await Promise.all(Array.from({ length: COUNT }, (_, index) => start(index)))
  instances.splice(0, COUNT, ...started)
}

/** Stops all processes while a transfer is in progress. One is replaced, the others go on after their leases have ended. */
async function freeze(scene: Scene, each: Intent): Promise<void> {
  if (!(await interrupt(scene, each, 'SIGSTOP'))) return
  counts.freezes += 1
  await kill(each.which % COUNT)
  if (IS_LONG) await setTimeout(LEASE_MS)
  await pass(2, false)
  for (const { child } of instances) child.kill('SIGCONT')
}

/** A standby that lagged behind becomes the primary, while the instances run. */
async function failOver(scene: Scene): Promise<void> {
  if (!database.hasCopy()) return database.copy()
  counts.failovers += 1
  await database.failOver()
  await endLeases()
  await repeatLost(scene)
}

/** An hour-old copy takes the place of the database. */
async function restore(scene: Scene): Promise<void> {
  if (!database.hasCopy()) return database.copy()
  counts.restores += 1
  await database.clock.move(60 * MINUTE_MS)
  await Promise.all(instances.map((instance) => instance.kill()))
  await database.restore()
  await restart()
  await repeatLost(scene)
}

async function take(scene: Scene, each: Intent): Promise<void> {
  const index = each.which % COUNT
  switch (each.kind) {
    case 'request':
      return request(scene, each)
    case 'fault': {
      const bank = banks.paying[each.bank % banks.paying.length]!
      // One of twenty payouts meets a fault, however many there are.
      return bank.fail(each.fault.operation, each.fault.fault, Math.ceil(each.count / 20))
    }
    case 'decide':
      return decide(scene, each)
    case 'pass':
      return pass(each.minutes, each.isDown)
    case 'kill':
      return kill(index)
    case 'crash':
      return crash()
    case 'power cut':
      return cutPower(scene, each)
    case 'freeze':
      return freeze(scene, each)
    case 'failover':
      return failOver(scene)
    case 'restore':
      return restore(scene)
    case 'pause':
      return void (await pool().query(PAUSE))
    case 'resume':
      return void (await pool().query(RESUME))
  }
}

const OPEN = `select from payout where completed_at is null limit 1`

async function unfinished(): Promise<string[]> {
  const { rows } = await pool().query<{ text: string }>(
    `select concat_ws(' ', bank_reference, status, bank, detail, next_at - now(), generation) as text from payout
      where completed_at is null limit 10`,
  )
  return rows.map(({ text }) => text)
}

/** All instances are up: every caller gets a response, however many there are. */
async function answered({ requests }: Scene): Promise<void> {
  while (requests.size > 0) {
    const left = requests.size
    await waitUntil(() => requests.size < left).catch(() => {
      throw new Error(`${left} callers got no response`)
    })
  }
}

/** Lets the banks and the service finish, with an operator who reads the books of the banks. */
async function drain(scene: Scene): Promise<void> {
  await pool().query(RESUME)
  await answered(scene)
  await repeatLost(scene)
  await answered(scene)
  for (let round = 0; (await pool().query(OPEN)).rowCount !== 0; round++) {
    if (round > 30) throw new Error(`payouts that do not end: ${(await unfinished()).join('; ')}`)
    await pass(round < 6 ? 20 : 600, false)
    await decideByBooks(pool(), banks.paying, instances[0]!.approver)
  }
  // Returned ones are noticed by the checks of the first week; what the bank does not respond to is checked again.
  for (const hours of [25, 72, 100]) await pass(hours * 60, false)
  const isChecked = async () => {
    const { rowCount } = await pool().query('select from payout where next_at is not null limit 1')
    return rowCount === 0
  }
  for (let hours = 0; !(await isChecked()); hours++) {
    if (hours > 100) throw new Error('checks of paid payouts do not end')
    await pass(61, false)
    await quiet()
  }
}

function nothing(what: string, found: readonly string[]): void {
  if (found.length > 0) throw new Error(`${what}: ${found.slice(0, 20).join('; ')}`)
}

function textOf({ kind, which, ...each }: Intent): string {
  switch (kind) {
    case 'request':
      return `request ${each.count} of ${each.amountMinor} to bank ${each.bank} for ${each.business}, instance ${which}`
    case 'fault':
      return `bank ${each.bank}: ${each.fault.operation} ${each.fault.fault}`
    case 'pass':
      return `pass ${each.minutes}${each.isDown ? ' while down' : ''}`
    default:
      return `${kind} ${which} ${each.business}`
  }
}

/** Whether commits are lost in a story: the first of these steps only makes the copy. */
const isLossy = (story: readonly Intent[]) =>
  story.filter(({ kind }) => kind === 'failover' || kind === 'restore').length > 1

/** The repeat of a lost request for most of the funds could be refused, although the bank has paid the first one. */
const withoutMost = (each: Intent): Intent =>
  each.amountMinor === MOST_MINOR ? { ...each, amountMinor: 500_000n } : each

async function play(story: readonly Intent[]): Promise<void> {
  stories += 1
  const steps = isLossy(story) ? story.map(withoutMost) : story
  await database.removeCopy()
  const done: string[] = []
  await recount(done, async () => {
    const businesses = await Promise.all(
      Array.from({ length: BUSINESSES }, (_, index) =>
        waitFor(() => fundBusiness(instances[index % COUNT]!.grpcUrl, FUNDS_MINOR)),
      ),
    )
    const scene: Scene = {
      prefix: `p${SEED}-${stories}`,
      businesses,
      wanted: [],
      requests: new Set(),
      refused: new Map(),
    }
    for (const each of steps) {
      done.push(textOf(each))
      await take(scene, each)
    }
    await drain(scene)
    for (const [message, count] of scene.refused) done.push(`refused ${count} times: ${message}`)
    nothing('books', await compareBooks(pool(), banks.paying))
    nothing('below zero', await everNegative(pool()))
    const settlements = grpcClient(SettlementService, instances[0]!.grpcUrl)
    for await (const { discrepancies } of settlements.verifyLedger({})) {
      nothing(
        'ledger',
        discrepancies.map(({ subject, problem }) => `${subject} ${problem}`),
      )
    }
  })
}

test(
  'every payout is paid once or given back once, whatever fails at the banks, the service and its database',
  async () => {
    await expectStories(story, play)
    const { rows } = await pool().query<{ status: string; count: number }>(
      'select status, count(*)::int as count from payout group by status order by status',
    )
    const faults = Object.entries(counts).map(([name, count]) => `${count} ${name}`)
    const payouts = rows.reduce((sum, { count }) => sum + count, 0)
    console.log(`${stories} stories, ${payouts} payouts, ${faults.join(', ')}`)
    for (const { status, count } of rows) console.log(`${count} ${status}`)
  },
  (MODEL_SECONDS + 600) * 1_000,
)
