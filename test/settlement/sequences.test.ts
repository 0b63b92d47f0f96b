import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { SYSTEM } from '../../src/auth/caller.ts'
import { openDatabase } from '../../src/postgres/orm.ts'
import { readBalance } from '../../src/settlement/balances/store.ts'
import { beginSettlement, continueSettlement } from '../../src/settlement/runs/run-settlement.ts'
import { settle } from '../../src/settlement/runs/settle.ts'
import { listEntries } from '../../src/settlement/statements/list-entries.ts'
import { updateTerms } from '../../src/settlement/terms/terms.ts'
import { reverseTransaction } from '../../src/transactions/reverse-transaction.ts'
import { useDatabase } from '../support/database.ts'
import {
  CALLER,
  createInstance,
  differencesOf,
  incoming,
  insertBusiness,
  testClock,
} from './fixture.ts'

const db = useDatabase(8)

/** Printed, and read back: SEED=… repeats a run. */
const SEED = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31))
const SEQUENCES = Number(process.env['SEQUENCES'] ?? 60)

const clock = testClock(Date.UTC(2026, 10, 20, 12))
let first: ReturnType<typeof createInstance>
let second: ReturnType<typeof createInstance>

beforeAll(async () => {
  const other = await openDatabase(db.url, 8)
  first = createInstance(db.database, clock)
  second = createInstance(other, clock)
  return () => other.close()
})

/** One thing that somebody does. Numbers choose among what there is by then. */
type Step =
  | { readonly kind: 'pay'; readonly amount: bigint; readonly pending: boolean }
  | { readonly kind: 'repeat'; readonly which: number }
  | { readonly kind: 'reverse'; readonly which: number }
  | { readonly kind: 'settle'; readonly force: boolean; readonly request: number }
  | { readonly kind: 'begin' }
  | { readonly kind: 'part'; readonly events: number; readonly crash: boolean }
  | { readonly kind: 'fees'; readonly flat: bigint; readonly points: number; readonly cap: bigint }
  | { readonly kind: 'schedule'; readonly at: 'INSTANT' | 'DAILY' | 'WORKING_DAYS' }
  | { readonly kind: 'days'; readonly count: number }
  | { readonly kind: 'tick'; readonly whole: boolean }
  | { readonly kind: 'retire' }

const which = fc.nat({ max: 30 })
const amount = fc.oneof(
  fc.bigInt({ min: 1n, max: 20n }),
  fc.bigInt({ min: 1n, max: 10_000_000n }),
  fc.constant(1_000_000_000_000_000n),
)
const fee = fc.oneof(fc.constant(0n), fc.bigInt({ min: 0n, max: 5_000n }))
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('pay' as const), amount, pending: fc.boolean() }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('repeat' as const), which }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('reverse' as const), which }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('settle' as const),
      force: fc.boolean(),
      request: fc.nat({ max: 3 }),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('begin' as const) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('part' as const),
      events: fc.integer({ min: 1, max: 3 }),
      crash: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('fees' as const),
      flat: fee,
      points: fc.oneof(fc.constant(0), fc.nat({ max: 10_000 })),
      cap: fee,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('schedule' as const),
      at: fc.constantFrom('INSTANT', 'DAILY', 'WORKING_DAYS'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('days' as const),
      count: fc.integer({ min: 0, max: 4 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('tick' as const), whole: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('retire' as const) }) },
)

/** Steps that are taken at once, one of them at either instance in turn. */
const rounds = fc.array(fc.array(step, { minLength: 1, maxLength: 4 }), {
  minLength: 3,
  maxLength: 10,
})

test(`in random sequences, at two instances, the books agree after every step (SEED=${SEED})`, async () => {
  await fc.assert(fc.asyncProperty(rounds, run), {
    seed: SEED,
    numRuns: SEQUENCES,
    // Shrinking runs on a database that holds what came before; the seed tells the sequence.
    endOnFailure: true,
  })
  // And all of it together, as an operator would look.
  await tick()
  expect(await differencesOf(db.database.pool)).toEqual([])
}, 900_000)

/** @param whole or only some of what waits: then the rest of that snapshot waits for the next */
async function tick(whole = true): Promise<void> {
  for (let more = true; more; ) {
    const { rows } = await db.database.pool.query('select more from sequence_events(2)')
    more = rows[0].more && whole
  }
}

/** What was done to a business, as its tests know it. */
interface Known {
  readonly id: string
  readonly accountNumber: string
  readonly payments: { session: string; amount: bigint; pending: boolean }[]
  recordedMinor: bigint
  reversedMinor: bigint
}

const FIRST = [1n, 99n, 333n, 5_000n, 123_456n, 1_000_000n]

async function run(sequence: readonly (readonly Step[])[]): Promise<void> {
  const { pool } = db.database
  const known: Known = {
    ...(await insertBusiness(pool)),
    payments: [],
    recordedMinor: 0n,
    reversedMinor: 0n,
  }
  // Enough to begin with that a settlement has several parts.
  await Promise.all(
    FIRST.map((amount) => take(known, { kind: 'pay', amount, pending: false }, first)),
  )
  await tick()
  for (const steps of sequence) {
    await Promise.all(steps.map((each, at) => take(known, each, at % 2 === 0 ? first : second)))
    await expectInvariants(known)
  }
  // Whatever was left half done is ended by whoever comes.
  await settle(second, { businessId: known.id, live: true, requestId: '', force: true }, CALLER)
  await expectInvariants(known)
  const balance = await readBalance(pool, { businessId: known.id, live: true })
  await tick()
  await settle(first, { businessId: known.id, live: true, requestId: '', force: true }, CALLER)
  expect((await readBalance(pool, { businessId: known.id, live: true })).pendingMinor).toBe(0n)
  expect(balance.pendingMinor).toBeGreaterThanOrEqual(0n)
  await expectInvariants(known)
}

async function take(known: Known, next: Step, instance: typeof first): Promise<void> {
  const { id: businessId } = known
  switch (next.kind) {
    case 'pay': {
      const session = `${businessId}-${known.payments.length}`
      known.payments.push({ session, amount: next.amount, pending: next.pending })
      return pay(known, instance, known.payments.length - 1, next.pending ? 'PENDING' : 'SUCCESS')
    }
    case 'repeat':
      return pay(known, instance, next.which, 'SUCCESS')
    case 'reverse':
      return reverse(known, instance, next.which)
    case 'settle': {
      const requestId = next.request === 0 ? '' : `${businessId}-${next.request}-${next.force}`
      await settle(instance, { businessId, live: true, requestId, force: next.force }, CALLER)
      return
    }
    case 'begin': {
      const fee = { feeFlatMinor: 3n, feeBasisPoints: 150, feeCapMinor: 2_000n }
      const begin = {
        businessId,
        live: true,
        requestId: undefined,
        forced: true,
        cutOffAtMs: clock.now(),
      }
      await beginSettlement(instance, { ...begin, ...fee })
      return
    }
    case 'part':
      return part(known, instance, next.events, next.crash)
    case 'fees': {
      const { feeFlatMinor, feeBasisPoints, feeCapMinor } = {
        feeFlatMinor: next.flat,
        feeBasisPoints: next.points,
        feeCapMinor: next.cap,
      }
      const schedule = { schedule: 'INSTANT' as const, workingDays: 0, cutOffMinutes: 0 }
      await updateTerms(
        instance,
        businessId,
        {
          ...schedule,
          feeFlatMinor,
          feeBasisPoints,
          feeCapMinor,
        },
        SYSTEM,
      )
      return
    }
    case 'schedule': {
      const workingDays = next.at === 'WORKING_DAYS' ? 1 : 0
      const fee = { feeFlatMinor: 10n, feeBasisPoints: 100, feeCapMinor: 100_000n }
      const cutOffMinutes = next.at === 'INSTANT' ? 0 : 90
      await updateTerms(
        instance,
        businessId,
        {
          schedule: next.at,
          workingDays,
          cutOffMinutes,
          ...fee,
        },
        SYSTEM,
      )
      return
    }
    case 'days':
      clock.set(clock.now() + next.count * 86_400_000 + 1)
      return instance.job.run()
    case 'tick':
      return tick(next.whole)
    case 'retire':
      return retire()
  }
}

async function pay(
  known: Known,
  { recordPayment }: typeof first,
  which: number,
  status: 'PENDING' | 'SUCCESS',
): Promise<void> {
  const payment = known.payments[which % Math.max(known.payments.length, 1)]
  if (payment === undefined) return
  const { outcome, transaction } = await recordPayment(
    incoming(known.accountNumber, payment.session, payment.amount, status),
  )
  if (outcome === 'RECORDED' && transaction?.status === 'SUCCESS')
    known.recordedMinor += payment.amount
}

async function reverse(known: Known, instance: typeof first, which: number): Promise<void> {
  const { rows } = await instance.pool.query<{ id: string; amount_minor: string }>(
    'select id, amount_minor from transaction where business_id = $1 order by id offset $2 limit 1',
    [known.id, which % Math.max(known.payments.length, 1)],
  )
  const row = rows[0]
  if (row === undefined) return
  const once = () =>
    reverseTransaction(instance, { transactionId: row.id, reason: 'asked for' }, SYSTEM).then(
      () => 1n,
      (error) => {
        expect(['already_reversed', 'not_reversible']).toContain(error.reason)
        return 0n
      },
    )
  const [a = 0n, b = 0n] = await Promise.all([once(), once()])
  expect(a + b).toBeLessThan(2n)
  known.reversedMinor += (a + b) * BigInt(row.amount_minor)
}

/** A part of what runs; or a crash in the middle of it: its connection is gone before the commit. */
async function part(
  known: Known,
  instance: typeof first,
  events: number,
  crash: boolean,
): Promise<void> {
  const { rows } = await instance.pool.query<{ id: string }>(
    "select id from settlement where business_id = $1 and status = 'RUNNING'",
    [known.id],
  )
  const id = rows[0]?.id
  if (id === undefined) return
  if (!crash) {
    await continueSettlement(instance, id, { eventsMax: events })
    return
  }
  const broken = dyingPool(instance.pool)
  const dying = continueSettlement({ ...instance, pool: broken }, id, { eventsMax: events })
  await expect(dying).rejects.toThrow()
}

/** A pool whose connections are cut when they are about to commit. */
function dyingPool(pool: typeof first.pool): typeof first.pool {
  return new Proxy(pool, {
    get(target, name) {
      if (name !== 'connect') return Reflect.get(target, name)
      return async () => {
        const client = await target.connect()
        return new Proxy(client, {
          get(inner, key) {
            if (key !== 'query') {
              const value = Reflect.get(inner, key)
              return typeof value === 'function' ? value.bind(inner) : value
            }
            return async (...args: [string]) => {
              if (args[0] === 'commit') {
                const { rows } = await inner.query('select pg_backend_pid() as pid')
                await target.query('select pg_terminate_backend($1)', [rows[0].pid])
              }
              return inner.query(...args)
            }
          },
        })
      }
    },
  })
}

/** As the retention does with events of any age: what they did to balances stays. */
async function retire(): Promise<void> {
  const { pool } = db.database
  await pool.query('update sequencer set floor = position where id = 1')
  const { deleteBelowFloor } = await import('../../src/events/retention.ts')
  await deleteBelowFloor(pool)
}

async function expectInvariants(known: Known): Promise<void> {
  const { pool } = db.database
  const balance = await readBalance(pool, { businessId: known.id, live: true })
  expect(balance.pendingMinor).toBeGreaterThanOrEqual(0n)
  expect(balance.pendingMinor + balance.availableMinor + balance.feesMinor).toBe(
    known.recordedMinor - known.reversedMinor,
  )
  // The summaries are what the postings come to, and nothing was settled twice.
  const { rows } = await pool.query(
    `select coalesce(sum(case 'pending' when credit_account then amount_minor
          when debit_account then -amount_minor end), 0) as pending,
        coalesce(sum(case 'available' when credit_account then amount_minor
          when debit_account then -amount_minor end), 0) as available,
        coalesce(sum(case 'fees' when credit_account then amount_minor
          when debit_account then -amount_minor end), 0) as fees,
        coalesce(sum(case when starts_with(credit_account, 'clearing:') then amount_minor
          when starts_with(debit_account, 'clearing:') then -amount_minor end), 0) as clearing,
        count(*) filter (where kind = 'settlement') as settled,
        count(distinct transaction_id) filter (where kind = 'settlement') as settled_distinct
      from ledger_posting where business_id = $1`,
    [known.id],
  )
  const [posted] = rows
  expect({
    pending: BigInt(posted.pending),
    available: BigInt(posted.available),
    fees: BigInt(posted.fees),
  }).toEqual({
    pending: balance.pendingMinor,
    available: balance.availableMinor,
    fees: balance.feesMinor,
  })
  const sum = ['pending', 'available', 'fees', 'clearing'].reduce(
    (a, b) => a + BigInt(posted[b]),
    0n,
  )
  expect(sum).toBe(0n)
  expect(posted.settled).toBe(posted.settled_distinct)
  const told = await pool.query(
    `select count(*)::int as wrong from settlement s where business_id = $1
      and (transaction_count, gross_minor, fees_minor) <> (
        select count(*) filter (where kind = 'settlement'),
          coalesce(sum(amount_minor) filter (where kind = 'settlement'), 0),
          coalesce(sum(amount_minor) filter (where kind = 'fee'), 0)
        from ledger_posting p where p.business_id = $1 and p.settlement_id = s.id)`,
    [known.id],
  )
  expect(told.rows).toEqual([{ wrong: 0 }])
  await expectStatement(known)
}

/** Pages of the books add up, each and together. */
async function expectStatement(known: Known): Promise<void> {
  const request = {
    businessId: known.id,
    live: true,
    fromMs: undefined,
    toMs: undefined,
    pageSize: 3,
  }
  let pageToken = ''
  let at = { pendingMinor: 0n, availableMinor: 0n, feesMinor: 0n }
  do {
    const page = await listEntries(db.database, { ...request, pageToken })
    expect(page.opening).toEqual(at)
    at = page.closing
    pageToken = page.nextPageToken
  } while (pageToken !== '')
}
