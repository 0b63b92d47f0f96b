import type { Pool } from 'pg'
import { beforeAll, describe, expect, test } from 'vitest'
import type { SplitRecipient } from '../../../src/accounts/splits/split.ts'
import { archiveEvents } from '../../../src/events/retention.ts'
import { tamper, useDatabase } from '../../support/database.ts'
import { sequence } from '../../support/events.ts'
import { findDiscrepancies } from '../fixture.ts'
import { createScene, fixed, percent } from './fixture.ts'

const db = useDatabase(8)

let scene: ReturnType<typeof createScene>

beforeAll(() => {
  scene = createScene(db.database)
})

const consistent = async () => expect(await findDiscrepancies(db.database.durablePool)).toEqual([])

describe('a reversal', () => {
  test('of a settled payment takes the shares back, once', async () => {
    const [shop, partner, agent] = [
      await scene.business(),
      await scene.business(),
      await scene.business(),
    ]
    await shop.split([percent(partner.id, 2_000), fixed(agent.id, 500n)])
    const id = await shop.pay(10_000n)
    await shop.pay(1_000n)
    await shop.settle()
    await scene.reverse(id)
    expect(await shop.balance()).toEqual([0n, 285n, 15n])
    expect(await partner.balance()).toEqual([0n, 200n, 0n])
    expect(await agent.balance()).toEqual([0n, 500n, 0n])
    const [, reversed, ...others] = await scene.shareEventsOf(agent.id)
    expect(others).toEqual([])
    expect(reversed).toMatchObject({
      kind: 'SHARE_REVERSED',
      event: {
        payload: {
          value: { transactionId: id, settlementId: '', amountMinor: 500n, transactionCount: 1n },
        },
      },
    })
    await consistent()
    await expect(scene.reverse(id)).rejects.toMatchObject({ reason: 'already_reversed' })
    expect(await partner.balance()).toEqual([0n, 200n, 0n])
    await consistent()
  })
})

describe('a reversal that leaves the balance of its business as it is', () => {
  const recipients: readonly (readonly [string, (id: string) => SplitRecipient, number])[] = [
    ['as others got all of the payment', (id) => percent(id, 10_000), 0],
    ['as others got its amount', (id) => fixed(id, 1_000n), 0],
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
      ...{ subjectId: id, pendingMinor: 0n, availableMinor: 0n },
      feesMinor: feeBasisPoints === 0 ? 0n : -15n,
    }
    expect((await shop.entries()).entries.at(-1)).toMatchObject(ofReversal)
    await expireAll(db.database.durablePool)
    expect((await shop.entries()).entries.at(-1)).toMatchObject(ofReversal)
    await consistent()
    expect(await shop.balance()).toEqual([0n, 0n, 0n])
  })
})

/** All events expire. */
async function expireAll(pool: Pool): Promise<void> {
  await pool.query('update event_retention set floor = (select position from sequencer)')
  expect(await archiveEvents(pool, 10_000)).toBeGreaterThan(0)
}

test('the statements of all parties add up to their balances', async () => {
  const [shop, partner] = [await scene.business(), await scene.business(0)]
  await shop.split([percent(partner.id, 3_333)])
  await partner.pay(700n)
  const id = await shop.pay(10_001n)
  await shop.settle()
  await partner.settle()
  await scene.reverse(id)
  for (const each of [shop, partner]) {
    expect((await each.entries()).closing).toEqual(await each.balance())
  }
  const { entries } = await partner.entries()
  expect(entries.map(({ kind, availableMinor }) => [kind, availableMinor])).toEqual([
    ['PAYMENT_NOTIFICATION', 0n],
    ['SHARE_SETTLED', 3_333n],
    ['SETTLEMENT_COMPLETED', 700n],
    ['SHARE_REVERSED', -3_333n],
  ])
  // It shows nothing of the payment of the other business but its id.
  expect(entries.at(-1)).toMatchObject({ subjectId: id, sessionId: '' })
})

describe('a verification reports', () => {
  const change = async (text: string, values: unknown[]) => {
    expect(await tamper(db.database.durablePool, text, values)).toBe(1)
    return findDiscrepancies(db.database.durablePool)
  }

  test('a changed share, one of another business, and a missing one', async () => {
    const [shop, partner, thief] = [
      await scene.business(0),
      await scene.business(),
      await scene.business(),
    ]
    await shop.split([percent(partner.id, 1_000)])
    const id = await shop.pay(1_000n)
    await shop.settle()
    const set = "where transaction_id = $1 and kind = 'share_1'"
    const less = await change(`update ledger_posting set amount_minor = 99 ${set}`, [id])
    expect(less).toContain(`${id}: splits 100; its shares add up to 99`)
    expect(less.join()).toContain(
      `${partner.id} has SHARE_SETTLED events of 100; its postings add up to 99`,
    )
    expect(less).toContain(`${partner.id}: the available balance is 100; its postings add up to 99`)
    await change(`update ledger_posting set amount_minor = 100 ${set}`, [id])
    await consistent()
    const stolen = await change(`update ledger_posting set business_id = $2 ${set}`, [id, thief.id])
    expect(stolen.join()).toContain(`its shares are {"share_1": ["${thief.id}", 100]}`)
    await change(`update ledger_posting set business_id = $2 ${set}`, [id, partner.id])
    await consistent()
    await change(`delete from ledger_posting ${set}`, [id]).then((found) => {
      expect(found).toContain(`${id}: splits 100; its shares add up to 0`)
    })
  })
})
