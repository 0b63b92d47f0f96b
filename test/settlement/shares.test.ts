import type { Pool } from 'pg'
import { beforeAll, describe, expect, test } from 'vitest'
import type { SplitRecipient } from '../../src/accounts/splits/split.ts'
import { archiveEvents } from '../../src/events/retention.ts'
import { inTransaction } from '../../src/postgres/in-transaction.ts'
import { lockRunning, settleBatch } from '../../src/settlement/runs/batch-store.ts'
import { processNextBatch, startSettlement } from '../../src/settlement/runs/run-settlement.ts'
import { lockWaits, useDatabase } from '../support/database.ts'
import { sequence } from '../support/events.ts'
import { findDiscrepancies, forced } from './fixture.ts'
import { createScene, fixed, percent } from './shares-fixture.ts'

const db = useDatabase(8)

let scene: ReturnType<typeof createScene>

beforeAll(() => {
  scene = createScene(db.database)
})

const consistent = async () => expect(await findDiscrepancies(db.database.durablePool)).toEqual([])

describe('the settlement of a payment that is split', () => {
  test('moves owner and recipients together at each commit, in several batches', async () => {
    const [shop, partner, agent] = [
      await scene.business(0),
      await scene.business(),
      await scene.business(),
    ]
    await shop.split([percent(partner.id, 1_000), percent(agent.id, 500)])
    for (let count = 0; count < 5; count++) await shop.pay(1_000n)
    await sequence(scene.durablePool)
    const begun = await startSettlement(scene, forced(shop.id, scene.clock.now()))
    for (const settled of [2n, 4n, 5n]) {
      await processNextBatch(scene, begun!.id, { eventsMax: 2 })
      expect(await shop.balance()).toEqual([5_000n - settled * 1_000n, settled * 850n, 0n])
      expect(await partner.balance()).toEqual([0n, settled * 100n, 0n])
      expect(await agent.balance()).toEqual([0n, settled * 50n, 0n])
    }
    await consistent()
    expect(await partner.shareEvents()).toHaveLength(3)
  })

  test('of two businesses that are recipients of each other does not wait for the other', async () => {
    const [one, other] = [await scene.business(0), await scene.business(0)]
    await one.split([percent(other.id, 1_000)])
    await other.split([percent(one.id, 5_000)])
    for (let round = 1n; round <= 3n; round++) {
      const ids = [await one.pay(1_000n), await other.pay(200n)]
      await Promise.all([one.settle(), other.settle()])
      await Promise.all(ids.slice(round < 3n ? 2 : 0).map(scene.reverse))
    }
    expect(await one.balance()).toEqual([0n, 2_000n, 0n])
    expect(await other.balance()).toEqual([0n, 400n, 0n])
    await consistent()
  })
})

describe('a reversal that leaves the balance of its business as it is', () => {
  const recipients: readonly (readonly [string, (id: string) => SplitRecipient, number])[] = [
    ['as others got a fixed share that is more', (id) => fixed(id, 5_000n), 0],
    ['but for the fee, as others got the rest', (id) => percent(id, 10_000), 150],
  ]

  test.each(recipients)('%s', async (_why, recipient, feeBasisPoints) => {
    const [shop, partner] = [await scene.business(feeBasisPoints), await scene.business()]
    await shop.split([recipient(partner.id)])
    const id = await shop.pay(1_000n)
    await shop.settle()
    await scene.reverse(id)
    // Before the event has its number, with it, and once it has expired.
    await consistent()
    await sequence(db.database.durablePool)
    await consistent()
    const ofReversal = {
      kind: 'PAYMENT_REVERSED',
      subjectId: id,
      pendingMinor: 0n,
      availableMinor: 0n,
      feesMinor: feeBasisPoints === 0 ? 0n : -15n,
    }
    expect((await shop.entries()).entries.at(-1)).toMatchObject(ofReversal)
    await expireAll(db.database.durablePool)
    expect((await shop.entries()).entries.at(-1)).toMatchObject(ofReversal)
    await consistent()
  })
})

/** All events expire. */
async function expireAll(pool: Pool): Promise<void> {
  await pool.query('update event_retention set floor = (select position from sequencer)')
  expect(await archiveEvents(pool, 10_000)).toBeGreaterThan(0)
}

test('the statements of all parties add up to their balances, and show nothing of the payments of others', async () => {
  const [shop, partner] = [await scene.business(), await scene.business(0)]
  await shop.split([percent(partner.id, 3_333)])
  const id = await shop.pay(10_001n)
  await shop.settle()
  await scene.reverse(id)
  for (const each of [shop, partner]) {
    expect((await each.entries()).closing).toEqual(await each.balance())
  }
  const { entries } = await partner.entries()
  expect(entries).toMatchObject([
    { kind: 'SHARE_SETTLED', availableMinor: 3_333n },
    { kind: 'SHARE_REVERSED', availableMinor: -3_333n, subjectId: id, sessionId: '' },
  ])
})

describe('a change of a split', () => {
  test('waits for a batch that settles payments of the business', async () => {
    const [shop, partner] = [await scene.business(0), await scene.business()]
    await shop.pay(1_000n)
    await sequence(scene.durablePool)
    const begun = await startSettlement(scene, forced(shop.id, scene.clock.now()))
    const { durablePool } = db.database
    let changed: Promise<unknown> | undefined
    const batch = inTransaction(durablePool, async (client) => {
      const running = await lockRunning(client, begun!.id, 'wait')
      if (typeof running === 'string') throw new Error('not running')
      await settleBatch(client, running, 500, scene.clock.now())
      changed = shop.split([percent(partner.id, 1_000)])
      await expect.poll(() => lockWaits(durablePool, 'advisory')).toBe(1)
      throw new Error('a crash before the commit')
    })
    await expect(batch).rejects.toThrow('a crash')
    await changed
    // The settlement continues with the payment from before the change, which is not divided.
    await shop.pay(500n)
    await shop.settle()
    expect(await partner.balance()).toEqual([0n, 50n, 0n])
    await consistent()
  })

  test('never changes or removes a version; a repeat makes none, and is not in the audit log', async () => {
    const [shop, partner] = [await scene.business(), await scene.business()]
    for (const _ of [1, 2]) await shop.split([percent(partner.id, 1_000)])
    const { rows } = await scene.durablePool.query(
      "select details from audit_entry where business_id = $1 and action = 'account.set_split'",
      [shop.id],
    )
    expect(rows).toEqual([{ details: expect.stringContaining(partner.id) }])
    for (const statement of [
      "update account_split set fee_bearer = 'SHARED'",
      'delete from account_split',
      'update account_split_recipient set basis_points = 1',
      'delete from account_split_recipient',
    ]) {
      await expect(scene.durablePool.query(statement)).rejects.toMatchObject({
        code: expect.stringMatching(/^23/),
      })
    }
  })
})
