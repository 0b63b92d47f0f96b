import { fromBinary } from '@bufbuild/protobuf'
import type { Pool } from 'pg'
import { EventSchema } from '../../../gen/inflow/event/v1/event_pb.ts'
import type { FeeBearer, Split, SplitRecipient } from '../../../src/accounts/splits/split.ts'
import type { Database } from '../../../src/postgres/orm.ts'
import { updateTerms } from '../../../src/settlement/change-terms.ts'
import { getBalance } from '../../../src/settlement/get-balance.ts'
import { listEntries } from '../../../src/settlement/list-entries.ts'
import { settle } from '../../../src/settlement/runs/settle.ts'
import { reverseTransaction } from '../../../src/transactions/reverse-transaction.ts'
import { createSetSplit } from '../../../src/transactions/set-split.ts'
import { sequence } from '../../support/events.ts'
import { SYSTEM } from '../../support/operator.ts'
import {
  CALLER,
  createInstance,
  incoming,
  insertBusiness,
  openTestAccount,
  testClock,
} from '../fixture.ts'

let sessions = 0

export const percent = (businessId: string, basisPoints: number): SplitRecipient => ({
  businessId,
  basisPoints,
  fixedMinor: undefined,
})

export const fixed = (businessId: string, fixedMinor: bigint): SplitRecipient => ({
  businessId,
  basisPoints: undefined,
  fixedMinor,
})

const referenceOf = async (pool: Pool, number: string): Promise<string> => {
  const { rows } = await pool.query('select reference from account where account_number = $1', [
    number,
  ])
  return rows[0].reference
}

/** Parts of an instance, and businesses that split payments. */
export function createScene(database: Database) {
  const clock = testClock(Date.UTC(2026, 10, 20, 12))
  const instance = createInstance(database, clock)
  const { durablePool } = database
  const change = createSetSplit(instance)
  const balance = async (businessId: string, live = true) => {
    const { pendingMinor, availableMinor, feesMinor } = await getBalance(database, {
      businessId,
      live,
    })
    return [pendingMinor, availableMinor, feesMinor]
  }

  /** A business with an account and a fee of 1.5 %, which nothing settles by itself. */
  async function business(
    feeBasisPoints = 150,
    schedule: 'WORKING_DAYS' | 'INSTANT' = 'WORKING_DAYS',
  ) {
    const { id, accountNumber } = await insertBusiness(durablePool)
    const workingDays = schedule === 'INSTANT' ? 0 : 30
    const terms = { schedule, workingDays, cutOffMinutes: 0 } as Parameters<typeof updateTerms>[2]
    await updateTerms(
      instance,
      id,
      { ...terms, feeFlatMinor: 0n, feeBasisPoints, feeCapMinor: 0n },
      SYSTEM,
    )
    const testNumber = await openTestAccount(durablePool, accountNumber)
    const numberOf = (live: boolean) => (live ? accountNumber : testNumber)
    return {
      id,
      /** Each payment has a time of its own. @returns its id */
      async pay(amountMinor: bigint, live = true) {
        clock.set(clock.now() + 1)
        sessions += 1
        const payment = { ...incoming(numberOf(live), `split-${sessions}`, amountMinor), live }
        const { transaction } = await instance.recordPayment(payment)
        return transaction!.id
      },
      async split(
        recipients: readonly SplitRecipient[],
        feeBearer: FeeBearer = 'OWNER',
        live = true,
      ) {
        const split: Split = { recipients, feeBearer }
        const names = { points: 'basisPoints', amount: 'amountMinor' }
        const reference = await referenceOf(durablePool, numberOf(live))
        const key = { businessId: id, live, reference }
        clock.set(clock.now() + 1)
        return change(key, { split, names, allowed: undefined }, SYSTEM)
      },
      async settle(live = true) {
        await sequence(durablePool)
        const request = { businessId: id, live, requestId: '', force: true }
        const { settlements } = await settle(instance, request, CALLER)
        await sequence(durablePool)
        return settlements
      },
      balance: (live = true) => balance(id, live),
      async entries(live = true) {
        await sequence(durablePool)
        const request = { businessId: id, live, fromMs: undefined, toMs: undefined }
        const page = await listEntries(database, { ...request, pageSize: 200, pageToken: '' })
        const { pendingMinor, availableMinor, feesMinor } = page.closing
        return { ...page, closing: [pendingMinor, availableMinor, feesMinor] }
      },
    }
  }
  return {
    ...{ ...instance, clock, business },
    reverse: (transactionId: string) =>
      reverseTransaction(instance, instance, { transactionId, reason: 'sent twice' }, SYSTEM),
    /** The events of shares of a business, decoded. */
    async shareEventsOf(businessId: string) {
      const { rows } = await durablePool.query<{ payload: Buffer; kind: string }>(
        "select kind, payload from outbox where business_id = $1 and kind like 'SHARE%' order by seq",
        [businessId],
      )
      return rows.map(({ kind, payload }) => ({ kind, event: fromBinary(EventSchema, payload) }))
    },
  }
}
