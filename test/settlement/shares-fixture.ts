import { fromBinary } from '@bufbuild/protobuf'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import type { FeeBearer, SplitRecipient } from '../../src/accounts/splits/split.ts'
import type { Database } from '../../src/postgres/orm.ts'
import { getBalance } from '../../src/settlement/get-balance.ts'
import { listEntries } from '../../src/settlement/list-entries.ts'
import { createSetSplit } from '../../src/transactions/set-split.ts'
import { sequence } from '../support/events.ts'
import { SYSTEM } from '../support/operator.ts'
import { createInstance, incoming, insertBusiness, testClock } from './fixture.ts'

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

/** Parts of an instance, and businesses that split payments. */
export function createScene(database: Database) {
  const clock = testClock(Date.UTC(2026, 10, 20, 12))
  const instance = createInstance(database, clock)
  const { durablePool } = database
  const change = createSetSplit(instance)

  /** A business with an account and a fee of 1.5 %, which nothing settles by itself. */
  async function business(feeBasisPoints = 150) {
    const { id, accountNumber } = await insertBusiness(durablePool)
    await instance.setTerms(id, { feeBasisPoints })
    const key = { businessId: id, live: true }
    return {
      id,
      /** Each payment has a time of its own. @returns its id */
      async pay(amountMinor: bigint) {
        clock.set(clock.now() + 1)
        sessions += 1
        const payment = incoming(accountNumber, `split-${sessions}`, amountMinor)
        return (await instance.recordPayment(payment)).transaction!.id
      },
      async split(recipients: readonly SplitRecipient[], feeBearer: FeeBearer = 'OWNER') {
        const names = { points: 'basisPoints', amount: 'amountMinor' }
        const { rows } = await durablePool.query(
          'select reference from account where account_number = $1',
          [accountNumber],
        )
        clock.set(clock.now() + 1)
        const split = { recipients, feeBearer }
        const { reference } = rows[0]
        return change({ ...key, reference }, { split, names, allowed: undefined }, SYSTEM)
      },
      setFee: (basisPoints: number) => instance.setTerms(id, { feeBasisPoints: basisPoints }),
      async settle() {
        await sequence(durablePool)
        const { settlements } = await instance.settleNow(id)
        await sequence(durablePool)
        return settlements
      },
      async balance() {
        const { pendingMinor, availableMinor, feesMinor } = await getBalance(database, key)
        return [pendingMinor, availableMinor, feesMinor]
      },
      async entries() {
        await sequence(durablePool)
        const request = { ...key, fromMs: undefined, toMs: undefined, pageSize: 200, pageToken: '' }
        const { entries, closing } = await listEntries(database, request)
        const { pendingMinor, availableMinor, feesMinor } = closing
        return { entries, closing: [pendingMinor, availableMinor, feesMinor] }
      },
      /** The events of its shares. */
      async shareEvents() {
        const { rows } = await durablePool.query<{ payload: Buffer; kind: string }>(
          "select kind, payload from outbox where business_id = $1 and kind like 'SHARE%' order by seq",
          [id],
        )
        return rows.map(({ kind, payload }) => {
          return { kind, share: fromBinary(EventSchema, payload).payload.value }
        })
      },
    }
  }
  return { ...instance, clock, business }
}
