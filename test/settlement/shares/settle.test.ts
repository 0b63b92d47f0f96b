import { beforeAll, describe, expect, test } from 'vitest'
import { previewSettlement } from '../../../src/settlement/runs/preview-settlement.ts'
import { processNextBatch, startSettlement } from '../../../src/settlement/runs/run-settlement.ts'
import { useDatabase } from '../../support/database.ts'
import { sequence } from '../../support/events.ts'
import { findDiscrepancies } from '../fixture.ts'
import { createScene, fixed, percent } from './fixture.ts'

const db = useDatabase(8)

let scene: ReturnType<typeof createScene>

beforeAll(() => {
  scene = createScene(db.database)
})

const consistent = async () => expect(await findDiscrepancies(db.database.durablePool)).toEqual([])

describe('the settlement of a payment that is split', () => {
  test('moves the shares to the available balances of the recipients, and the rest to the owner', async () => {
    const [shop, partner, agent] = [
      await scene.business(),
      await scene.business(),
      await scene.business(),
    ]
    await shop.split([percent(partner.id, 2_000), fixed(agent.id, 500n)])
    await shop.pay(100_000n)
    await shop.pay(33_333n)
    await sequence(scene.durablePool)
    const preview = await previewSettlement(scene, { businessId: shop.id, live: true, force: true })
    expect(preview).toMatchObject({ feesMinor: 2_000n, splitsMinor: 27_666n })
    expect(await shop.balance()).toEqual([133_333n, 0n, 0n])
    expect(await partner.balance()).toEqual([0n, 0n, 0n])
    const [settlement] = await shop.settle()
    expect(settlement).toMatchObject({ grossMinor: 133_333n, feesMinor: 2_000n })
    expect(settlement).toMatchObject({ splitsMinor: 27_666n, transactionCount: 2n })
    expect(await shop.balance()).toEqual([0n, 103_667n, 2_000n])
    expect(await partner.balance()).toEqual([0n, 26_666n, 0n])
    expect(await agent.balance()).toEqual([0n, 1_000n, 0n])
    const [settled, ...others] = await scene.shareEventsOf(partner.id)
    expect(others).toEqual([])
    expect(settled).toMatchObject({
      kind: 'SHARE_SETTLED',
      event: {
        payload: {
          case: 'share',
          value: {
            ownerBusinessId: shop.id,
            ownerName: 'A',
            settlementId: settlement!.id,
            transactionId: '',
            transactionCount: 2n,
            amountMinor: 26_666n,
          },
        },
      },
    })
    await consistent()
  })

  test('moves owner and recipients together at each commit, in several batches', async () => {
    const [shop, partner, agent] = [
      await scene.business(0),
      await scene.business(),
      await scene.business(),
    ]
    await shop.split([percent(partner.id, 1_000), percent(agent.id, 500)])
    for (let count = 0; count < 5; count++) await shop.pay(1_000n)
    await sequence(scene.durablePool)
    const fee = { feeFlatMinor: 0n, feeBasisPoints: 0, feeCapMinor: 0n }
    const begun = await startSettlement(scene, {
      ...{ businessId: shop.id, live: true, requestId: undefined, forced: true },
      ...{ ...fee, cutOffAtMs: scene.clock.now() },
    })
    for (const settled of [2n, 4n, 5n]) {
      await processNextBatch(scene, begun!.id, { eventsMax: 2 })
      expect(await shop.balance()).toEqual([5_000n - settled * 1_000n, settled * 850n, 0n])
      expect(await partner.balance()).toEqual([0n, settled * 100n, 0n])
      expect(await agent.balance()).toEqual([0n, settled * 50n, 0n])
      await consistent()
    }
    expect(await scene.shareEventsOf(partner.id)).toHaveLength(3)
    await shop.pay(1_000n)
    await shop.settle()
    expect(await partner.balance()).toEqual([0n, 600n, 0n])
    await consistent()
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
