import type { Pool } from 'pg'
import { beforeAll, describe, expect, test } from 'vitest'
import { inTransaction } from '../../../src/postgres/in-transaction.ts'
import { lockRunning, settleBatch } from '../../../src/settlement/runs/batch-store.ts'
import { startSettlement } from '../../../src/settlement/runs/run-settlement.ts'
import { useDatabase } from '../../support/database.ts'
import { sequence } from '../../support/events.ts'
import { findDiscrepancies } from '../fixture.ts'
import { createScene, percent } from './fixture.ts'

const db = useDatabase(8)

let scene: ReturnType<typeof createScene>

beforeAll(() => {
  scene = createScene(db.database)
})

const consistent = async () => expect(await findDiscrepancies(db.database.durablePool)).toEqual([])

/** How many transactions wait for a lock of a balance. */
async function advisoryWaits(pool: Pool): Promise<number> {
  const { rowCount } = await pool.query(
    `select from pg_locks l join pg_database d on d.oid = l.database
      where l.locktype = 'advisory' and not l.granted and d.datname = current_database()`,
  )
  return rowCount ?? 0
}

describe('a change of a split', () => {
  test('does not hold for a payment that another instance recorded before, with a clock ahead', async () => {
    const [shop, partner] = [await scene.business(0), await scene.business()]
    const nowMs = scene.clock.now()
    scene.clock.set(nowMs + 5_000)
    await shop.pay(1_000n)
    await shop.settle()
    scene.clock.set(nowMs)
    await shop.split([percent(partner.id, 1_000)])
    await consistent()
    scene.clock.set(nowMs + 6_000)
    await shop.pay(500n)
    await shop.settle()
    expect(await partner.balance()).toEqual([0n, 50n, 0n])
    await consistent()
  })

  test('waits for a batch that settles payments of the business', async () => {
    const [shop, partner] = [await scene.business(0), await scene.business()]
    await shop.pay(1_000n)
    await sequence(scene.durablePool)
    const begun = await startSettlement(scene, {
      ...{ businessId: shop.id, live: true, requestId: undefined, forced: true },
      ...{ feeFlatMinor: 0n, feeBasisPoints: 0, feeCapMinor: 0n, cutOffAtMs: scene.clock.now() },
    })
    const { durablePool } = db.database
    let changed: Promise<unknown> | undefined
    const batch = inTransaction(durablePool, async (client) => {
      const running = await lockRunning(client, begun!.id, 'wait')
      if (typeof running === 'string') throw new Error('not running')
      await settleBatch(client, running, 500, scene.clock.now())
      changed = shop.split([percent(partner.id, 1_000)])
      await expect.poll(() => advisoryWaits(durablePool)).toBe(1)
      throw new Error('a crash before the commit')
    })
    await expect(batch).rejects.toThrow('a crash')
    await changed
    // The settlement goes on with the payment of before the change, which is not divided.
    await shop.pay(500n)
    await shop.settle()
    expect(await partner.balance()).toEqual([0n, 50n, 0n])
    await consistent()
  })

  test('is in the audit log; a repeat changes nothing', async () => {
    const [shop, partner] = [await scene.business(), await scene.business()]
    const split = [percent(partner.id, 1_000)]
    await shop.split(split)
    await shop.split(split)
    const { rows } = await scene.durablePool.query(
      "select details from audit_entry where business_id = $1 and action = 'account.set_split'",
      [shop.id],
    )
    expect(rows).toHaveLength(1)
    expect(rows[0].details).toContain(partner.id)
  })

  test('never changes or removes a version', async () => {
    const [shop, partner] = [await scene.business(), await scene.business()]
    await shop.split([percent(partner.id, 1_000)])
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
