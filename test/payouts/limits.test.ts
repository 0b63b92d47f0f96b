import { timestampMs } from '@bufbuild/protobuf/wkt'
import { ConnectError } from '@connectrpc/connect'
import { expect, onTestFinished, test } from 'vitest'
import { BadRequestSchema, ErrorInfoSchema } from '../../gen/google/rpc/error_details_pb.ts'
import { MINUTE_MS } from '../../src/core/durations.ts'
import { useService } from '../support/service.ts'
import { createPayoutScene } from './scene.ts'

const service = useService()
const { payouts, funded, request, approver, batchOfTwo } = createPayoutScene(service)
const query = (text: string, values: unknown[]) => service.database.durablePool.query(text, values)

/** What a request gets: undefined, or the fault with its text. */
const faultOf = (call: Promise<unknown>) =>
  call.then(
    () => undefined,
    (error) => {
      const fault = ConnectError.from(error)
      const [field] = fault.findDetails(BadRequestSchema)[0]?.fieldViolations ?? []
      return field?.description ?? fault.findDetails(ErrorInfoSchema)[0]?.reason
    },
  )

const DAY = expect.stringContaining("today's limit")
const MONTH = expect.stringContaining("this month's limit")

test('a limit counts the day and the month in Lagos of one mode, without what was refused', async () => {
  const limits = { dailyMaxMinor: 50_000n, monthlyMaxMinor: 80_000n, approvalAboveMinor: 0n }
  const businessId = await funded(undefined, limits)
  await query(
    `insert into payout_day
      select $1, false, date_trunc('day', now() at time zone 'Africa/Lagos')::date, 80000`,
    [businessId],
  )
  const refused = await request(businessId, 40_000n)
  expect(await faultOf(request(businessId, 10_001n))).toEqual(DAY)
  await payouts().rejectPayout({ payoutId: refused.id })
  await request(businessId, 50_000n)
  expect(await faultOf(request(businessId, 1n))).toEqual(DAY)
  // As if that had been the day before, be it in this month or in the last one.
  const before = (days: string) =>
    query(`update payout_day set day = ${days} where business_id = $1 and live`, [businessId])
  await before("date_trunc('month', now() at time zone 'Africa/Lagos')::date - 1")
  await request(businessId, 50_000n)
  const { rowCount } = await query(
    `update payout_day set requested_minor = 0, day = date_trunc('month', day)::date - 40
      where business_id = $1 and live and day < date_trunc('month', now() at time zone 'Africa/Lagos')::date`,
    [businessId],
  )
  expect(rowCount).toBe(1)
  await payouts().updatePayoutPolicy({
    policy: { businessId, ...limits, dailyMaxMinor: 0n },
  })
  await request(businessId, 30_000n)
  expect(await faultOf(request(businessId, 1n))).toEqual(MONTH)
})

test('the limit of the installation counts all businesses, also if they request at once', async () => {
  const businesses = await Promise.all([funded(), funded(), funded()])
  const { rows } = await query(
    `select coalesce(sum(requested_minor), 0)::text as minor from payout_day
      where live and day = (now() at time zone 'Africa/Lagos')::date`,
    [],
  )
  const dailyMaxMinor = BigInt(rows[0].minor) + 50_000n
  await payouts().updatePayoutPolicy({ policy: { dailyMaxMinor } })
  onTestFinished(async () => {
    await payouts().updatePayoutPolicy({ policy: {} })
  })
  const faults = await Promise.all(businesses.map((id) => faultOf(request(id, 25_000n))))
  expect(faults.filter((fault) => fault === undefined)).toHaveLength(2)
  expect(faults.find((fault) => fault !== undefined)).toEqual(DAY)
})

test('an approval takes no longer than the installation allows', async () => {
  onTestFinished(async () => void (await payouts().updatePayoutPolicy({ policy: {} })))
  await payouts().updatePayoutPolicy({ policy: { approvalAboveMinor: 0n, approvalHours: 2 } })
  const { createdAt, expiresAt } = await request(await funded(), 100n)
  // The times are of the service and of its database.
  const minutes = (timestampMs(expiresAt!) - timestampMs(createdAt!)) / MINUTE_MS
  expect(Math.round(minutes)).toBe(120)
})

test('a batch is decided without what has expired, and is none of another business', async () => {
  const businessId = await funded(undefined, { approvalAboveMinor: 0n })
  const key = await batchOfTwo(businessId)
  const person = await approver()
  const foreign = { ...key, businessId: await funded() }
  expect(await faultOf(person.getBatch(foreign))).toBe('not_found')
  expect(await faultOf(person.approveBatch(foreign))).toBe('not_found')
  // Its time is over, and no instance has noticed yet.
  await query(
    `update payout set expires_at = now() where id = (select min(id) from payout where batch_id = $1)`,
    [key.batchId],
  )
  expect(await person.approveBatch(key)).toMatchObject({ count: 1, sumMinor: 100n })
})
