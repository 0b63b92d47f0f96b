import { expect, test } from 'vitest'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { migrated } from '../support/database.ts'
import type { ServiceProcess } from '../support/process.ts'
import { startProxy } from '../support/proxy.ts'
import type { Receiver } from '../support/receiver.ts'
import { waitFor } from '../support/wait-for.ts'
import {
  client,
  follow,
  idsOf,
  openNotified,
  recordPayment,
  sessionsOf,
  startInstances,
  webhooksAt,
} from './scene.ts'
import {
  burnTransactionIds,
  copyCluster,
  copyRows,
  startPair,
  startPrimary,
  startServer,
} from './standby.ts'

/** Starts two instances whose database is behind a proxy, and a receiver of webhooks. */
async function startBehindProxy(databaseUrl: string) {
  const target = new URL(databaseUrl)
  const proxy = await startProxy(() => target.href)
  return {
    ...(await startInstances(proxy.through)),
    proxy,
    /** Where new connections go. */
    pointTo: (url: string) => {
      target.href = url
    },
  }
}

/** Records payments one after another, each until an instance acknowledges it. */
async function pay(
  instances: readonly ServiceProcess[],
  accountNumber: string,
  sessions: string[],
) {
  for (const [index, sessionId] of sessions.entries()) {
    const transactions = client(TransactionService, instances[index % instances.length]!)
    await waitFor(() => recordPayment(transactions, accountNumber, sessionId))
  }
}

const named = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${prefix}-${index}`)

/** Waits until the log of a business has these sessions, in their order, and no others. */
async function listLog(instance: ServiceProcess, businessId: string, sessions: readonly string[]) {
  const log = await waitFor(async () => {
    const listed = await client(EventService, instance).listEvents({ businessId, limit: 500 })
    expect(sessionsOf(listed.events)).toEqual(sessions)
    return listed
  })
  expect(log.events.map(({ businessSequence }) => Number(businessSequence))).toEqual(
    log.events.map((_, index) => index + 1),
  )
  return log
}

/** Waits until webhooks of all sessions have arrived. @returns their bodies' data */
async function webhooksOf(receiver: Receiver, sessions: readonly string[]) {
  await waitFor(() => {
    const arrived = new Set(webhooksAt(receiver).map((data) => data.transaction_ref))
    expect(sessions.filter((each) => !arrived.has(each))).toEqual([])
  })
  return webhooksAt(receiver)
}

test('a failover that loses commits begins an epoch, and ends the streams that had seen more; a restore of an earlier copy of the data folder too', async () => {
  const pair = await startPair()
  const { proxy, instances, receiver, pointTo } = await startBehindProxy(pair.primary.url)
  const [first, second] = instances
  const { businessId, accountNumber } = await openNotified(first, receiver)
  const surviving = named('surviving', 20)
  await pay(instances, accountNumber, surviving)
  const behind = follow(second)
  await waitFor(() => expect(behind.events).toHaveLength(21))
  await pair.caughtUp()
  await pair.cutOff()
  const lost = named('lost', 15)
  const ahead = [follow(first), follow(second)]
  await pay(instances, accountNumber, lost)
  for (const { events } of [behind, ...ahead]) {
    await waitFor(() => expect(events).toHaveLength(36))
  }
  // The deliveries that are still to be made are lost with the primary.
  await webhooksOf(receiver, [...surviving, ...lost])

  await proxy.block()
  await pair.primary.stop()
  await pair.promote()
  pointTo(pair.standby.url)
  await proxy.unblock()
  const startedMs = performance.now()
  const later = named('later', 30)
  await pay(instances, accountNumber, later.slice(0, 1))
  console.log(
    `a payment was accepted ${Math.round(performance.now() - startedMs)} ms after the failover`,
  )
  await pay(instances, accountNumber, later.slice(1))

  const log = await listLog(second, businessId, [...surviving, ...later])
  expect(log.epoch).toBe(2)
  expect(log.events.map(({ epoch }) => epoch)).toEqual([
    ...Array.from({ length: 21 }, () => 1),
    ...later.map(() => 2),
  ])
  for (const each of ahead) {
    await waitFor(() => expect(each.refused).toBeDefined())
    expect(each.refused?.reason).toBe('stale_cursor')
    const resumed = follow(first, each.refused?.cursor)
    await waitFor(() => expect(resumed.events).toHaveLength(30))
    expect(idsOf(resumed.events)).toEqual(idsOf(log.events.slice(21)))
  }
  // It had received the lost events too, as it was still connected.
  await waitFor(() => expect(behind.refused).toBeDefined())
  const paused = follow(second, log.events[20]?.cursor)
  await waitFor(() => expect(idsOf(paused.events)).toEqual(idsOf(log.events.slice(21))))

  const webhooks = await webhooksOf(receiver, [...surviving, ...lost, ...later])
  const numbers = new Map(webhooks.map((data) => [data.event_id, `${data.epoch}.${data.sequence}`]))
  expect(new Set(numbers.values()).size).toBe(numbers.size)
  expect(instances.filter((each) => each.output().includes('a new epoch begins'))).toHaveLength(1)
  // The business repeats what it knows to be paid: lost payments are recorded once more.
  await pay(instances, accountNumber, [...lost, ...later])
  const kept = [...surviving, ...later, ...lost]
  await listLog(first, businessId, kept)

  const copy = `${pair.folder}-copy`
  await copyCluster(pair.standby.url, pair.standbyFolder, copy)
  const further = instances.map((instance) => follow(instance))
  await pay(instances, accountNumber, named('forgotten', 10))
  for (const { events } of further) {
    await waitFor(() => expect(events).toHaveLength(1 + kept.length + 10))
  }
  await proxy.block()
  await pair.standby.stop()
  pointTo((await startServer(copy)).url)
  await proxy.unblock()
  const last = named('last', 15)
  await pay(instances, accountNumber, last)
  const restored = await listLog(second, businessId, [...kept, ...last])
  for (const each of further) {
    await waitFor(() => expect(each.refused?.reason).toBe('stale_cursor'))
    const resumed = follow(first, each.refused?.cursor)
    await waitFor(() => expect(idsOf(resumed.events)).toEqual(idsOf(restored.events)))
  }
  await webhooksOf(receiver, last)
})

test('a planned switchover ends no stream and loses nothing; nor does a restore into another cluster, whether its transaction ids are higher or lower', async () => {
  const pair = await startPair()
  const { proxy, instances, receiver, pointTo } = await startBehindProxy(pair.primary.url)
  const [first, second] = instances
  const { businessId, accountNumber } = await openNotified(first, receiver)
  const followers = instances.map((instance) => follow(instance))
  await pay(instances, accountNumber, named('before', 20))
  for (const { events } of followers) await waitFor(() => expect(events).toHaveLength(21))

  await proxy.block()
  await pair.caughtUp()
  await pair.primary.stop()
  await pair.promote()
  pointTo(pair.standby.url)
  await proxy.unblock()
  const sessions = [...named('before', 20), ...named('after', 20)]
  await pay(instances, accountNumber, sessions)

  const log = await listLog(second, businessId, sessions)
  expect(log.epoch).toBe(2)
  for (const follower of followers) {
    await waitFor(() => expect(idsOf(follower.events)).toEqual(idsOf(log.events)))
    expect(follower.refused).toBeUndefined()
  }
  await webhooksOf(receiver, sessions)

  let from = pair.standby
  for (const [index, ids] of ['higher', 'lower'].entries()) {
    const { server } = await startPrimary(pair.folder)
    if (ids === 'higher') await burnTransactionIds(server.url, 5_000)
    await proxy.block()
    await migrated(server.url)
    await copyRows(from.url, server.url)
    await from.stop()
    pointTo(server.url)
    await proxy.unblock()
    from = server
    const later = named(ids, 15)
    await pay(instances, accountNumber, [...sessions, ...later])
    sessions.push(...later)

    const log = await listLog(second, businessId, sessions)
    expect(log.epoch).toBe(3 + index)
    for (const follower of followers) {
      await waitFor(() => expect(idsOf(follower.events)).toEqual(idsOf(log.events)))
      expect(follower.refused).toBeUndefined()
    }
    await webhooksOf(receiver, later)
    await waitFor(async () => {
      const { balance } = await client(SettlementService, first).getBalance({ businessId })
      expect(balance?.pendingMinor).toBe(100n * BigInt(sessions.length))
    })
  }
})
