import fc from 'fast-check'
import { afterAll, beforeAll, test } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { useDatabase } from '../support/database.ts'
import { grpcClient } from '../support/grpc-client.ts'
import { createMovedClock, type MovedClock } from '../support/moved-clock.ts'
import { waitFor, waitUntil } from '../support/wait-for.ts'
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
import { expectStories, MODEL_SECONDS, MODEL_SEED, recount, weighted } from './try-stories.ts'

/** How many payouts one step requests at most. */
const AT_ONCE = Number(process.env['MODEL_PAYOUTS'] ?? 6)
const COUNT = 3
const FUNDS_MINOR = 1_000_000_000_00n
const MINUTE_MS = 60_000

const db = useDatabase()
let clock: MovedClock
let banks: Awaited<ReturnType<typeof startPayingBanks>>
const instances: PayoutInstance[] = []

/** The last one's own clock is an hour ahead. */
const start = (index: number) =>
  startPayoutInstance(db.url, banks.environment, {
    aheadMs: index === COUNT - 1 ? 60 * MINUTE_MS : 0,
    approverToken: () => approverToken,
  })
let approverToken = ''

beforeAll(async () => {
  clock = await createMovedClock(db.database.durablePool)
  banks = await startPayingBanks(clock)
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
})

const BUSINESSES = 3
const FAULTS = {
  enquire: ['500', 'cut', 'wrong name'],
  send: [
    ...['hang', 'hang after', 'cut', 'cut after', '500', '500 after', 'page', 'page after'],
    ...['pays later', 'fails later', 'returns later', 'hides', 'other reference', 'other amount'],
    ...['insufficient', 'rejected'],
  ],
  find: ['500', 'cut', 'page', 'other reference', 'other amount'],
} as const

const intent = fc.record({
  kind: weighted({
    ...{ request: 12, fault: 14, decide: 4, pass: 4 },
    ...{ kill: 2, crash: 2, freeze: 1, pause: 1, resume: 2 },
  }),
  which: fc.nat(99),
  business: fc.nat(BUSINESSES - 1),
  count: fc.integer({ min: 1, max: AT_ONCE }),
  /** Some are more than what is left of the funds, or need an approval. */
  amountMinor: fc.constantFrom(1n, 9_999n, 500_000n, 20_000_000n, FUNDS_MINOR / 2n),
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
const story = fc.array(intent, { minLength: 8, maxLength: 40, size: 'max' })

/** The businesses of a story, and what is requested beside its other steps. */
interface Scene {
  readonly prefix: string
  readonly businesses: readonly string[]
  readonly requests: Set<Promise<void>>
}

let stories = 0
let serial = 0
let kills = 0
let crashes = 0

const pool = () => db.database.durablePool

/** Requests payouts at any instance, each of them at two now and then. */
function request({ prefix, businesses, requests }: Scene, each: Intent): void {
  const code = banks.paying[each.bank]?.code
  const businessId = businesses[each.business] as string
  for (let index = 0; index < each.count; index++) {
    serial += 1
    const beneficiary = beneficiaryAt(code, serial)
    const details = { businessId, reference: `${prefix}-${serial}`, beneficiary }
    const ask = (first: number) =>
      insist(instances, first, async ({ payouts }) => {
        const { resolution } = await payouts.resolveAccountName({ businessId, ...beneficiary })
        await payouts.createPayout({ ...details, amountMinor: each.amountMinor, resolution })
      })
    for (let copy = 0; copy < (index % 4 === 0 ? 2 : 1); copy++) {
      // A caller that no instance answers gives up: the books count, not the responses.
      const asked = ask(each.which + index + copy)
        .catch(() => undefined)
        .finally(() => requests.delete(asked))
      requests.add(asked)
    }
  }
}

/** Approves, rejects or cancels some of what may be decided. */
async function decide({ businesses }: Scene, { which, business }: Intent): Promise<void> {
  const { rows } = await pool().query<{ id: string; status: string }>(
    `select id, status from payout where business_id = $1 and status in ('PENDING_APPROVAL', 'APPROVED')
      order by id limit 10`,
    [businesses[business]],
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

/** Waits until nothing is due, but for what a killed or frozen instance left. */
async function quiet(): Promise<void> {
  const until = performance.now() + 5 * BANK_TIMEOUT_MS
  await waitUntil(async () => {
    const { rowCount } = await pool().query(
      `select from payout where status = 'SUBMITTING' or next_at <= now() limit 1`,
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
  await clock.move(minutes * MINUTE_MS)
  if (!isDown) {
    await pool().query(`update payout_sender set alive_at = alive_at + interval '1 minute' * $1`, [
      minutes,
    ])
  }
  await pool().query(RESUME)
}

/** Ends an instance as a crash does, and starts another one in its place. */
async function kill(index: number): Promise<void> {
  kills += 1
  await instances[index]!.kill()
  instances[index] = await start(index)
}

/** Ends every connection of the instances, as a crash of the server does; transactions in progress are lost. */
async function crash(): Promise<void> {
  crashes += 1
  await pool().query(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()
      and pid <> pg_backend_pid() and application_name <> 'model'`,
  )
}

/** Stops a process for longer than a bank takes to respond. */
async function freeze(index: number): Promise<void> {
  const { child } = instances[index]!
  child.kill('SIGSTOP')
  await pass(2, false)
  child.kill('SIGCONT')
}

async function take(scene: Scene, each: Intent): Promise<void> {
  const index = each.which % COUNT
  switch (each.kind) {
    case 'request':
      return request(scene, each)
    case 'fault': {
      const bank = banks.paying[each.bank % banks.paying.length]!
      return bank.fail(each.fault.operation, each.fault.fault)
    }
    case 'decide':
      return decide(scene, each)
    case 'pass':
      return pass(each.minutes, each.isDown)
    case 'kill':
      return kill(index)
    case 'crash':
      return crash()
    case 'freeze':
      return freeze(index)
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

/** Lets the banks and the service finish, with an operator who reads the books of the banks. */
async function drain({ requests }: Scene): Promise<void> {
  await pool().query(RESUME)
  await Promise.all(requests)
  for (let round = 0; (await pool().query(OPEN)).rowCount !== 0; round++) {
    if (round > 30) throw new Error(`payouts that do not end: ${(await unfinished()).join('; ')}`)
    await pass(round < 6 ? 20 : 600, false)
    await decideByBooks(pool(), banks.paying, instances[0]!.approver)
  }
  // Returned ones are noticed by the checks of the first week.
  for (const hours of [25, 72, 100]) await pass(hours * 60, false)
  await waitUntil(async () => {
    const { rowCount } = await pool().query(`select from payout where next_at <= now() limit 1`)
    return rowCount === 0
  })
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

async function play(steps: readonly Intent[]): Promise<void> {
  stories += 1
  const done: string[] = []
  await recount(done, async () => {
    const businesses = await Promise.all(
      Array.from({ length: BUSINESSES }, (_, index) =>
        waitFor(() => fundBusiness(instances[index % COUNT]!.grpcUrl, FUNDS_MINOR)),
      ),
    )
    const scene: Scene = { prefix: `p${MODEL_SEED}-${stories}`, businesses, requests: new Set() }
    for (const each of steps) {
      done.push(textOf(each))
      await take(scene, each)
    }
    await drain(scene)
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
    const counts = rows.map(({ status, count }) => `${count} ${status}`).join(', ')
    console.log(`${stories} stories, ${kills} kills, ${crashes} lost servers: ${counts}`)
  },
  (MODEL_SECONDS + 600) * 1_000,
)
