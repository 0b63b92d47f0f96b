import { expect, test } from 'vitest'
import {
  type Claim,
  claimDeliveries,
  createUnclearClaims,
  failClaims,
  releaseClaims,
} from '../../../src/webhooks/deliveries/claim-deliveries.ts'
import {
  type Completion,
  completeAttempts,
} from '../../../src/webhooks/deliveries/record-attempt.ts'
import { dispatchNow, logEvents, paymentEvent } from '../fixture.ts'
import { addEndpoint, useWebhooks } from '../harness.ts'

const harness = useWebhooks()
const pool = () => harness.database.durablePool

const LEASE_MS = 60_000
const nowMs = Date.now()

const DEAF = 'http://127.0.0.1:9'

/** A delivery that no process sends yet. @returns the id of its endpoint */
async function createDelivery(webhooks = harness.idle()): Promise<string> {
  const businessId = await harness.business()
  const { id } = await addEndpoint(webhooks, businessId, DEAF)
  await logEvents(harness.database, [paymentEvent(businessId)])
  const terms = { idPrefix: 'dlv_0000000000000000', leaseMs: LEASE_MS, nowMs }
  expect(await dispatchNow(pool(), terms)).toMatchObject({ deliveries: 1 })
  return id
}

/** Claims the delivery of an endpoint. @returns undefined if it cannot be claimed at that time */
async function claim(endpointId: string, atMs: number): Promise<Claim | undefined> {
  const terms = { nowMs: atMs, leaseMs: LEASE_MS, pendingFrom: 0n }
  const { claims } = await claimDeliveries(pool(), [{ endpointId, share: 1 }], terms)
  return claims[0]
}

/** A process claims a delivery and is late: another one has claimed it meanwhile. */
async function claimTwice() {
  const endpointId = await createDelivery()
  const late = (await claim(endpointId, nowMs)) as Claim
  expect(await claim(endpointId, nowMs + LEASE_MS - 1)).toBeUndefined()
  const atMs = nowMs + LEASE_MS
  const current = (await claim(endpointId, atMs)) as Claim
  expect(current.id).toBe(late.id)
  return { endpointId, late, current, atMs }
}

const completionOf = ({ id, position, fence }: Claim, error = ''): Completion => ({
  id,
  position,
  fence,
  error,
  state: error === '' ? 'DELIVERED' : 'PENDING',
  atMs: nowMs + 1_000,
  startedAtMs: nowMs,
  latencyMs: 5,
  status: 200,
  responseBody: '',
})

async function rowOf(endpointId: string) {
  const { rows } = await pool().query(
    `select d.state, d.attempts, d.leased_until, d.failure,
        (select count(*)::int from webhook_attempt where delivery_id = d.id) as earlier
      from webhook_delivery d where endpoint_id = $1`,
    [endpointId],
  )
  expect(rows).toHaveLength(1)
  return rows[0]
}

const LATE: [string, (late: Claim) => Promise<unknown>][] = [
  ['success', (late) => completeAttempts(pool(), [completionOf(late)])],
  ['failure', (late) => completeAttempts(pool(), [completionOf(late, 'responded with 500')])],
  ['release', (late) => releaseClaims(pool(), [late])],
  ['end as failed', (late) => failClaims(pool(), [late], nowMs, 'its event was deleted')],
]

test.each(LATE)(
  'a late %s changes nothing while another process attempts the delivery',
  async (_name, act) => {
    const { endpointId, late, current, atMs } = await claimTwice()
    const before = await rowOf(endpointId)
    expect(before).toMatchObject({ state: 'PENDING', attempts: 0 })
    const result = await act(late)
    if (result !== undefined) expect(result).toEqual([undefined])
    expect(await rowOf(endpointId)).toEqual(before)
    // So no process sends it again, and the attempt in progress is recorded.
    expect(await claim(endpointId, atMs + LEASE_MS - 1)).toBeUndefined()
    expect(await completeAttempts(pool(), [completionOf(current)])).not.toEqual([undefined])
    expect(await rowOf(endpointId)).toMatchObject({ state: 'DELIVERED', attempts: 1, earlier: 0 })
  },
)

test.each(['', 'responded with 500'])(
  'a completion that is repeated counts one attempt (%j)',
  async (error) => {
    const { endpointId, current } = await claimTwice()
    const completion = completionOf(current, error)
    expect(await completeAttempts(pool(), [completion])).not.toEqual([undefined])
    const once = await rowOf(endpointId)
    expect(once).toMatchObject({ attempts: 1, earlier: 0, leased_until: null })
    expect(await completeAttempts(pool(), [completion])).toEqual([undefined])
    expect(await rowOf(endpointId)).toEqual(once)
    // It is due again only if it failed, and then.
    expect(await claim(endpointId, nowMs + 999)).toBeUndefined()
    expect((await claim(endpointId, nowMs + 1_000)) !== undefined).toBe(error !== '')
  },
)

test('a process that released a delivery records no attempt of it', async () => {
  const endpointId = await createDelivery()
  const released = (await claim(endpointId, nowMs)) as Claim
  await releaseClaims(pool(), [released])
  expect(await completeAttempts(pool(), [completionOf(released)])).toEqual([undefined])
  expect(await rowOf(endpointId)).toMatchObject({
    state: 'PENDING',
    attempts: 0,
    leased_until: null,
  })
  expect(await claim(endpointId, nowMs)).toMatchObject({ id: released.id, attempts: 0 })
})

test('a claim whose result is lost is released, and no other claim with it', async () => {
  const [lostId, keptId, refusedId] = [
    await createDelivery(),
    await createDelivery(),
    await createDelivery(),
  ]
  const unclear = createUnclearClaims(pool())
  const claimAndFail = async (endpointId: string, message: string) => {
    const attempt = { endpointIds: [endpointId, keptId], leasedUntilMs: nowMs + LEASE_MS }
    const claiming = unclear.watch(attempt, async () => {
      expect(await claim(endpointId, nowMs)).toBeDefined()
      throw new Error(message)
    })
    await expect(claiming).rejects.toThrow(message)
  }
  await claimAndFail(lostId, 'Query read timeout')
  // A statement that failed at the server has claimed nothing.
  await claimAndFail(refusedId, 'division by zero')
  expect(await claim(keptId, nowMs + 1)).toBeDefined()
  expect(await claim(lostId, nowMs + LEASE_MS - 1)).toBeUndefined()

  await unclear.release()
  expect(await claim(refusedId, nowMs + 1)).toBeUndefined()
  expect(await claim(keptId, nowMs + 1)).toBeUndefined()
  const again = await claim(lostId, nowMs)
  expect(again).toBeDefined()
  // It is released once: what is claimed now has a process that sends it.
  await unclear.release()
  expect(await claim(lostId, nowMs + 1)).toBeUndefined()
  expect(await completeAttempts(pool(), [completionOf(again as Claim)])).not.toEqual([undefined])
})
