import { beforeEach, expect, test } from 'vitest'
import { updateTerms } from '../../src/settlement/change-terms.ts'
import { claimDue } from '../../src/settlement/runs/advance-settlements.ts'
import { settle } from '../../src/settlement/runs/settle.ts'
import { followPayments } from '../../src/settlement/sweep-due.ts'
import { useDatabase } from '../support/database.ts'
import { SYSTEM } from '../support/operator.ts'
import {
  CALLER,
  createInstance,
  insertBusiness,
  openTestAccount,
  payAt,
  testClock,
} from './fixture.ts'

const db = useDatabase(8)
const LEASE_MS = 30_000

/** A Friday, midday in Lagos. */
const clock = testClock(Date.UTC(2026, 10, 20, 11))
const NO_FEE = { feeFlatMinor: 0n, feeBasisPoints: 0, feeCapMinor: 0n }

let instance: ReturnType<typeof createInstance>

beforeEach(async () => {
  instance = createInstance(db.database, clock)
  // The first sweep, of an empty index: what it would repair is what these tests look for.
  await instance.job.run()
})

async function listedModes(businessId: string): Promise<boolean[]> {
  const { rows } = await db.database.durablePool.query<{ live: boolean }>(
    'select live from settlement_due where business_id = $1 order by live',
    [businessId],
  )
  return rows.map(({ live }) => live)
}

test('a settlement of one mode leaves the other in the index, and hides none of its payments', async () => {
  const { id, accountNumber } = await insertBusiness(instance.durablePool)
  const inTest = await openTestAccount(instance.durablePool, accountNumber)
  await payAt(instance.durablePool, accountNumber, 5, clock.now())
  await payAt(instance.durablePool, inTest, 1, clock.now())
  await followPayments(instance)
  expect(await listedModes(id)).toEqual([false, true])
  await settle(instance, { businessId: id, live: true, requestId: 'live', force: true }, CALLER)
  expect(await listedModes(id)).toEqual([false])
  await settle(instance, { businessId: id, live: false, requestId: 'test', force: true }, CALLER)
  expect(await listedModes(id)).toEqual([])
  // Their numbers are lower than those that the settlement of live payments has reached.
  await payAt(instance.durablePool, inTest, 1, clock.now())
  await followPayments(instance)
  expect(await listedModes(id)).toEqual([false])
  // And now they are higher.
  await payAt(instance.durablePool, inTest, 6, clock.now())
  await settle(instance, { businessId: id, live: true, requestId: 'again', force: true }, CALLER)
  expect(await listedModes(id)).toEqual([false])
})

test('a balance whose instance died is settled half a minute later', async () => {
  const { id, accountNumber } = await insertBusiness(instance.durablePool)
  const schedule = { schedule: 'INSTANT' as const, workingDays: 0, cutOffMinutes: 0 }
  await updateTerms(instance, id, { ...schedule, ...NO_FEE }, SYSTEM)
  await payAt(instance.durablePool, accountNumber, 1, clock.now())
  await followPayments(instance)
  const claimed = await claimDue(instance.durablePool, clock.now())
  expect(claimed).toContainEqual({ businessId: id, live: true })
  const isSettled = async () => {
    await instance.job.run()
    return (await listedModes(id)).length === 0
  }
  clock.set(clock.now() + LEASE_MS - 1)
  expect(await isSettled()).toBe(false)
  clock.set(clock.now() + 1)
  expect(await isSettled()).toBe(true)
})
