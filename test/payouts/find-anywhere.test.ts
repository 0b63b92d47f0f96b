import { describe, expect, test } from 'vitest'
import { PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { BANK_CODES, type BankCode, type BankOf } from '../../src/banks/bank.ts'
import type { FoundTransfer, TransferOrder } from '../../src/banks/transfer.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/core/durations.ts'
import { newId } from '../../src/core/ids.ts'
import { resolvePayout } from '../../src/payouts/decide-payout.ts'
import { findAnywhere, type Generation, readGeneration } from '../../src/payouts/find-anywhere.ts'
import { afterAsking, afterFindingAnywhere } from '../../src/payouts/outcome.ts'
import { NEVER_SEEN, type Payout } from '../../src/payouts/payout.ts'
import { reconcilePayouts } from '../../src/payouts/reconcile-payouts.ts'
import type { PayoutContext } from '../../src/payouts/reserve-payout.ts'
import { SENT_BEFORE } from '../../src/payouts/route-payout.ts'
import { askBank } from '../../src/payouts/send-payouts.ts'
import { changePayout, findPayout } from '../../src/payouts/store.ts'
import { pageTokenOf } from '../../src/postgres/page-token.ts'
import { SYSTEM } from '../support/operator.ts'
import { useService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'
import { createRefundScene } from './refund-scene.ts'
import { createPayoutScene, LOST } from './scene.ts'

const service = useService()
const { payouts, funded, request, until, restored } = createPayoutScene(service)

async function stored(): Promise<Payout> {
  const businessId = await funded(undefined, { approvalAboveMinor: 0n })
  const { id } = await request(businessId, undefined, LOST)
  return (await findPayout(service.database.durablePool, id)) as Payout
}

/** The generation as it is read when it began so long ago by the clock of the database. */
async function generationOf(agoMs: number): Promise<Generation> {
  const { durablePool } = service.database
  const beganMs = performance.now()
  await durablePool.query("update payout_sender set began_at = now() - $1 * interval '1 ms'", [
    agoMs,
  ])
  const generation = (await readGeneration(durablePool)) as Generation
  // What these statements took does not count.
  return { ...generation, ageMs: generation.ageMs - (generation.readAtMs - beganMs) }
}

const allBanks = (state: FoundTransfer) =>
  Object.fromEntries(BANK_CODES.map((bank) => [bank, state])) as Record<BankCode, FoundTransfer>

/**
 * @param aheadMs how far the clock of the service is ahead of the database's
 * @param find what all banks state, or each of those that are connected
 */
function contextAt(
  aheadMs = 0,
  find?: FoundTransfer | Partial<Record<BankCode, FoundTransfer>>,
  asked: TransferOrder[] = [],
): PayoutContext {
  const { context } = createRefundScene(service.database)
  const sandbox = context.bankOf({ bank: '9PSB', live: true })!
  const bankOf: BankOf = ({ bank }) => {
    const found = find && ('kind' in find ? find : find[bank])
    if (found === undefined) return undefined
    const stated = async (order: TransferOrder) => {
      asked.push(order)
      return found
    }
    const transfers = { ...sandbox.connector.transfers!, find: stated }
    return { ...sandbox, connector: { ...sandbox.connector, transfers } }
  }
  return {
    ...context,
    clock: { now: () => Date.now() + aheadMs },
    ...(find && { bankOf }),
  }
}

const find = (context: PayoutContext, payout: Payout, generation: Generation) => {
  const { bankReference, amountMinor, destination, narration, enquiryReference } = payout
  const order = { reference: bankReference, amountMinor, narration, enquiryReference }
  return findAnywhere(context, payout, { ...order, beneficiary: destination }, generation)
}

describe('"not found" counts by the time of the database', () => {
  test.each([
    [
      'just after the generation began, if the service takes the clock of the old primary',
      0,
      1,
      'unclear',
    ],
    ['after the window, if the clock of the service is behind', MINUTE_MS, -1, 'never sent'],
  ] as const)('at all banks %s', async (_, agoMs, aheadHours, kind) => {
    const payout = await stored()
    const generation = await generationOf(agoMs)
    const context = contextAt(aheadHours * HOUR_MS)
    const found = await find(context, payout, generation)
    expect(found.kind).toBe(kind)
    // The wait for the window is no attempt that failed.
    const [change] = afterFindingAnywhere(payout, found, generation)
    expect(change?.attempts).toBe(payout.attempts)
  })

  test('and all banks are asked again in a second if their lists may count in a moment', async () => {
    const payout = await stored()
    // No time passes for it.
    const generation = {
      ...(await generationOf(MINUTE_MS)),
      ageMs: MINUTE_MS,
      get readAtMs() {
        return performance.now()
      },
    }
    const { consistencyMs } = contextAt().bankOf({ bank: '9PSB', live: true })!.connector.transfers!
    const ageMs = MINUTE_MS - consistencyMs + 5
    const context = contextAt(0, { kind: 'not found', cause: 'no', ageMs })
    expect(await find(context, payout, generation)).toMatchObject({
      kind: 'unclear',
      cause: 'no bank knows it yet',
      nextInMs: 1_000,
    })
  })

  test.each([
    ['that was sent long ago', MINUTE_MS, MINUTE_MS, 0, 'not found'],
    ['that was sent long ago by the clock of the old primary', 0, HOUR_MS, 0, 'unknown'],
    ['that was just sent, if the clock of the service is ahead', MINUTE_MS, 0, 1, 'unknown'],
    [
      'that was sent long ago, if the clock of the service is behind',
      HOUR_MS,
      MINUTE_MS,
      -1,
      'not found',
    ],
  ] as const)('at the bank of a payout %s', async (_, agoMs, sentMs, aheadHours, kind) => {
    const before = await stored()
    const generation = await generationOf(agoMs)
    const submittedAtMs = Date.now() - sentMs
    const payout = { ...before, status: 'UNKNOWN', bank: '9PSB', submittedAtMs } as const
    const found = await askBank(contextAt(aheadHours * HOUR_MS), payout, generation)
    expect(found.kind).toBe(kind)
  })
})

describe('a bank that is searched', () => {
  const sent = async () =>
    ({ ...(await stored()), status: 'UNKNOWN', bank: '9PSB', submittedAtMs: 0 }) as const

  test.each([
    ['before the window ended', 59_500, 'unclear', 'unknown'],
    ['after it', 30_000, 'never sent', 'not found'],
  ] as const)('by a list that was read %s', async (_, ageMs, anywhere, asked) => {
    const payout = await sent()
    const generation = await generationOf(MINUTE_MS)
    const context = contextAt(0, { kind: 'not found', cause: 'not in the list', ageMs })
    expect((await find(context, payout, generation)).kind).toBe(anywhere)
    expect((await askBank(context, payout, generation)).kind).toBe(asked)
  })

  test('is asked again in seconds while its list is read, and nothing else changes', async () => {
    const generation = await generationOf(DAY_MS + MINUTE_MS)
    const reading = { kind: 'unknown', cause: 'still being read', isReading: true } as const
    const context = contextAt(0, reading)
    const waiting = { ...(await stored()), status: 'APPROVED' } as const
    const found = await find(context, waiting, generation)
    expect(afterFindingAnywhere(waiting, found, generation)).toMatchObject([
      { status: 'APPROVED', nextInMs: 5_000, attempts: waiting.attempts },
    ])
    for (const status of ['UNKNOWN', 'MANUAL_REVIEW', 'PAID'] as const) {
      const changes = afterAsking(context, { ...(await sent()), status }, reading)
      expect(changes).toEqual([{ status, nextInMs: 5_000 }])
    }
  })

  test.each([
    ['that was requested just after a failover', HOUR_MS, {}, 'silence'],
    ['that was requested before the silence', -2 * HOUR_MS, {}, 'request'],
    ['that was requested days after a failover', 2 * DAY_MS, {}, 'request'],
    ['of a batch from before', 2 * DAY_MS, { batchId: -HOUR_MS }, 'silence'],
    ['of a later batch', 2 * DAY_MS, { batchId: 2 * DAY_MS }, 'request'],
    ['of a settlement from before', 2 * DAY_MS, { settlementId: -HOUR_MS }, 'silence'],
    ['of a later settlement', 2 * DAY_MS, { settlementId: 2 * DAY_MS }, 'request'],
  ] as const)(
    'is searched for a payout %s from when it may have been sent',
    async (_, afterMs, of, from) => {
      const generation = await generationOf(7 * DAY_MS)
      const { beganAtMs } = generation
      const ids = Object.entries({ batchId: 'pba', settlementId: 'stl' } as const).map(
        ([field, prefix]) => {
          const atMs = of[field as keyof typeof of] as number | undefined
          return [field, atMs === undefined ? '' : newId(prefix, beganAtMs + atMs)]
        },
      )
      const createdAtMs = beganAtMs + afterMs
      const payout = { ...(await sent()), createdAtMs, ...Object.fromEntries(ids) }
      const silentSinceMs = beganAtMs - HOUR_MS
      const asked: TransferOrder[] = []
      const context = contextAt(0, { kind: 'pending', cause: '' }, asked)
      // `find` asks each bank that can pay.
      await find(context, payout, { ...generation, silentSinceMs })
      await askBank(context, payout, { ...generation, silentSinceMs })
      const fromMs = (from === 'silence' ? silentSinceMs : createdAtMs) - MINUTE_MS
      expect(new Set(asked.map(({ searchFromMs }) => searchFromMs))).toEqual(new Set([fromMs]))
      expect(asked.at(-1)?.mayBeUnsent).toBeUndefined()
      expect(asked[0]).toMatchObject({ mayBeUnsent: true, listAgeMsMax: expect.any(Number) })
    },
  )
})

test('what needs an approval in the day after a failover is looked for at the banks at once, and can then be rejected', async () => {
  const { durablePool } = service.database
  await generationOf(MINUTE_MS)
  await restored()
  const { id: payoutId } = await stored()
  await waitUntil(async () => {
    const { steps } = await payouts().getPayout({ payoutId })
    return steps.some(({ text }) => text.startsWith('no bank knows it'))
  })
  const waiting = (await findPayout(durablePool, payoutId))!
  expect(waiting).toMatchObject({ status: 'PENDING_APPROVAL', nextAtMs: waiting.expiresAtMs })
  const { payout } = await payouts().rejectPayout({ payoutId })
  expect(payout?.status).toBe(PayoutStatus.REJECTED)
})

describe('while the list of its bank is read', () => {
  const reading = { kind: 'unknown', cause: 'still being read', isReading: true } as const

  test('a payout is not sent again, and the call may be repeated', async () => {
    const { durablePool } = service.database
    await generationOf(HOUR_MS)
    const { id: payoutId } = await request(await funded(), undefined, LOST)
    await until(payoutId, PayoutStatus.UNKNOWN)
    await durablePool.query("update payout set next_at = now() + interval '1 hour' where id = $1", [
      payoutId,
    ])
    const unknown = (await findPayout(durablePool, payoutId))!
    const review = {
      status: 'MANUAL_REVIEW',
      failureReason: NEVER_SEEN,
      nextInMs: HOUR_MS,
    } as const
    await changePayout(durablePool, unknown, review, Date.now())
    const resend = { payoutId, decision: 'RESEND', note: 'lost', sessionId: '' } as const
    await expect(resolvePayout(contextAt(0, reading), resend, SYSTEM)).rejects.toMatchObject({
      reason: 'unavailable',
      retryAfterSeconds: 5,
    })
    const unclear = { kind: 'unknown', cause: 'no response' } as const
    await expect(resolvePayout(contextAt(0, unclear), resend, SYSTEM)).rejects.toMatchObject({
      reason: 'resend_not_safe',
    })
  })

  test('a paid payout is no difference', async () => {
    const { id } = await request(await funded())
    await until(id, PayoutStatus.PAID)
    const { bank, live } = (await findPayout(service.database.durablePool, id))!
    const period = { fromMs: Date.now() - HOUR_MS, toMs: Date.now() + HOUR_MS }
    const missing = async (found: FoundTransfer) => {
      const of = { bank: bank!, live, period, lines: [], pageToken: pageTokenOf(['missing', '']) }
      const { discrepancies } = await reconcilePayouts(contextAt(0, found), of, SYSTEM)
      return discrepancies.filter(({ payoutId }) => payoutId === id).map(({ kind }) => kind)
    }
    expect(await missing(reading)).toEqual([])
    expect(await missing({ kind: 'unknown', cause: 'no response' })).toEqual(['MISSING_AT_BANK'])
  })
})

describe('a bank that is unclear for a day after a restore', () => {
  const unclear = async (status: Payout['status'], bankStates: FoundTransfer) => {
    const generation = await generationOf(DAY_MS + MINUTE_MS)
    const payout = { ...(await stored()), status }
    const found = await find(contextAt(0, bankStates), payout, generation)
    return afterFindingAnywhere(payout, found, generation)
  }
  const nothing = { kind: 'unknown', cause: 'no response' } as const

  test('approves no payout, which waits on for its approval', async () => {
    const changes = await unclear('PENDING_APPROVAL', nothing)
    expect(changes.map(({ status }) => status)).toEqual(['PENDING_APPROVAL'])
  })

  test('leaves an approved one to an operator, and does not say that the bank knows it', async () => {
    const changes = await unclear('APPROVED', nothing)
    expect(changes.map(({ status }) => status)).toEqual(['SUBMITTING', 'UNKNOWN'])
    expect(changes[0]?.step).toMatch(/ has not stated for a day whether it was sent before the /)
    const [known] = await unclear('APPROVED', { kind: 'pending', cause: 'accepted' })
    expect(known?.step).toMatch(/ knows it: it was sent before /)
  })

  test('has an approved one sent again only if no bank knows it', async () => {
    const { durablePool } = service.database
    const missing = { kind: 'not found', cause: 'no such transfer' } as const
    const generation = await generationOf(DAY_MS + MINUTE_MS)
    const later = { nextInMs: HOUR_MS }
    const approval = { status: 'APPROVED', ...later } as const
    const approved = (await changePayout(durablePool, await stored(), approval, Date.now()))!
    const both = { ...allBanks(missing), '9PSB': nothing, PROVIDUS: nothing }
    const found = await find(contextAt(0, both), approved, generation)
    let payout = approved
    for (const change of [
      ...afterFindingAnywhere(approved, found, generation),
      ...afterAsking(contextAt(), { ...approved, status: 'UNKNOWN' }, missing),
    ]) {
      payout = (await changePayout(durablePool, payout, { ...change, ...later }, Date.now()))!
    }
    expect(payout).toMatchObject({ status: 'MANUAL_REVIEW', bank: '9PSB' })
    await durablePool.query(
      "update payout set submitted_at = now() - interval '20 minutes' where id = $1",
      [payout.id],
    )
    const resend = (states: Partial<Record<BankCode, FoundTransfer>>) => {
      const decision = { decision: 'RESEND', note: 'not in the books', sessionId: '' } as const
      return resolvePayout(contextAt(0, states), { payoutId: payout.id, ...decision }, SYSTEM)
    }
    for (const atProvidus of [nothing, { kind: 'paid', sessionId: '' }] as const) {
      await expect(resend({ ...allBanks(missing), PROVIDUS: atProvidus })).rejects.toMatchObject({
        reason: 'resend_not_safe',
      })
    }
    expect(await resend(allBanks(missing))).toMatchObject({ status: 'APPROVED', bank: '9PSB' })
  })
})

test.each([
  ['sent once', 'FAILED', 'it is the bank of the beneficiary'],
  ['sent again', 'MANUAL_REVIEW', SENT_BEFORE],
] as const)(
  'a payout that was %s and whose bank states a failure is %s',
  async (_, status, routing) => {
    const payout = { ...(await stored()), status: 'UNKNOWN', bank: '9PSB', routing } as const
    const failed = { kind: 'failed', reason: 'bank_rejected', cause: 'refused' } as const
    expect(afterAsking(contextAt(), payout, failed)).toMatchObject([{ status, detail: 'refused' }])
  },
)

describe('a bank that is not connected any more', () => {
  const { PROVIDUS: _, ...others } = allBanks({ kind: 'not found', cause: 'no such transfer' })

  test.each([
    ['asked if it served payouts until the restore', 0, 'unclear'],
    ['not asked if it was given up before', 2 * HOUR_MS, 'never sent'],
  ] as const)('is %s', async (_, givenUpMs, kind) => {
    const payout = await stored()
    const { durablePool } = service.database
    const served = () =>
      durablePool.query("select from bank_float where live = $1 and bank = 'PROVIDUS'", [
        payout.live,
      ])
    await waitUntil(async () => (await served()).rowCount === 1)
    const generation = await generationOf(HOUR_MS)
    const silentSinceMs = Date.now() + givenUpMs
    const found = await find(contextAt(0, others), payout, { ...generation, silentSinceMs })
    expect(found.kind).toBe(kind)
  })
})
