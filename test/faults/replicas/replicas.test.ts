import { expect, onTestFinished, test } from 'vitest'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { EventService } from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { ReconciliationService } from '../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { ENTITIES } from '../../../src/app/entities.ts'
import { checkReplicas } from '../../../src/doctor/check-database.ts'
import { openDatabase } from '../../../src/postgres/orm.ts'
import { migrated, query } from '../../support/database.ts'
import { grpcTransport } from '../../support/grpc-client.ts'
import { startInstance } from '../../support/instance.ts'
import { openAccountOver, openBusinessOver } from '../../support/opened-account.ts'
import { postRest } from '../../support/service.ts'
import { waitFor } from '../../support/wait-for.ts'
import { type Pair, startPair } from '../standby.ts'
import { pause, pay, readsOf, resume, startReader, untilUsed } from './scene.ts'

async function startScene() {
  const pair = await startPair()
  await migrated(pair.primary.url)
  const writer = await startInstance(pair.primary.url)
  onTestFinished(writer.close)
  const reader = await startReader(pair.primary.url, pair.standby.url)
  const business = await openBusinessOver(grpcTransport(writer.grpcUrl))
  await untilUsed(reader, true)
  return { pair, writer, reader, ...business }
}

type Scene = Awaited<ReturnType<typeof startScene>>

const getTransaction = ({ reader, businessId }: Scene, sessionId: string) =>
  reader.client(TransactionService).getTransaction({ businessId, sessionId })

const post = async ({ reader, secretKey }: Scene, path: string, body: object) =>
  (await postRest(reader.httpUrl, secretKey, path, body)).body.data

/** Each method that reads on replicas, with what the second account and payment change in its response. */
const READS: Readonly<Record<string, (scene: Scene) => Promise<unknown>>> = {
  getTransaction: async (scene) =>
    (await getTransaction(scene, 'second')).transaction?.sessionId === 'second',
  'REST getTransaction': async (scene) =>
    (await post(scene, 'getTransaction/', { session_id: 'second' }))?.session_id === 'second',
  listTransactions: async ({ reader, businessId }) =>
    (await reader.client(TransactionService).listTransactions({ businessId })).transactions
      .length === 2,
  'REST listTransactions': async (scene) =>
    (await post(scene, 'listTransactions/', {})).transactions.length === 2,
  getAccount: async ({ reader, businessId }) =>
    (await reader.client(AccountService).getAccount({ businessId, reference: 'order-2' })).account
      ?.merchantReference === 'order-2',
  'REST getVirtualAccount': async (scene) =>
    (await post(scene, 'getVirtualAccount/', { reference: 'order-2' }))?.account.length === 1,
  listAccounts: async ({ reader, businessId }) =>
    (await reader.client(AccountService).listAccounts({ businessId })).accounts.length === 2,
  listEvents: async ({ reader, businessId }) =>
    (await reader.client(EventService).listEvents({ businessId })).events.length === 4,
  'REST listEvents': async (scene) => (await post(scene, 'listEvents/', {})).events.length === 4,
  getBalance: async ({ reader, businessId }) =>
    (await reader.client(SettlementService).getBalance({ businessId })).balance?.pendingMinor ===
    20_000n,
  listEntries: async ({ reader, businessId }) =>
    (await reader.client(SettlementService).listEntries({ businessId })).entries.length === 2,
  listRecordedPayments: async ({ reader }) => {
    const period = { from: { seconds: 946_684_800n }, to: { seconds: 4_000_000_000n } }
    const request = { bank: Bank.BANK_PROVIDUS, ...period }
    const { payments } = await reader.client(ReconciliationService).listRecordedPayments(request)
    return payments.length === 2
  },
  listUnmatchedPayments: async ({ reader }) =>
    (await reader.client(ReconciliationService).listUnmatchedPayments({})).payments.length === 1,
  listSettlements: async ({ reader, businessId }) =>
    (await reader.client(SettlementService).listSettlements({ businessId })).settlements.length ===
    0,
  listAuditEntries: async ({ reader, businessId }) =>
    (await reader.client(AdminService).listAuditEntries({ businessId })).entries.length > 0,
}

test('a standby that replays nothing serves no read, and every read once it has replayed', async () => {
  const scene = await startScene()
  const { pair, writer, reader, businessId, accountNumber } = scene
  await pay(writer, accountNumber, 'first')
  const database = await openDatabase(pair.primary.url, ENTITIES, { connectionsMax: 2 })
  onTestFinished(database.close)
  await waitFor(async () => {
    const found = expect.stringMatching(/^the replica 127\S+ follows the primary$/)
    const findings = await checkReplicas(database.durablePool, [pair.standby.url])
    expect(findings).toMatchObject([{ level: 'ok', found }])
  })
  await pause(pair.standby.url)
  const before = await readsOf(reader)
  const { accountNumber: second } = await openAccountOver(grpcTransport(writer.grpcUrl), {
    businessId,
    reference: 'order-2',
  })
  await pay(writer, second, 'second')
  await pay(writer, '9999999999', 'unmatched')
  await waitFor(async () => {
    const { events } = await writer.client(EventService).listEvents({ businessId })
    expect(events).toHaveLength(4)
  })
  for (const [name, read] of Object.entries(READS)) {
    expect(await read(scene), name).toBe(true)
  }
  expect((await readsOf(reader)).replica).toBe(before.replica)
  await untilUsed(reader, false)
  await waitFor(async () => {
    const lag = await reader.metrics.getSingleMetric('inflow_replica_lag_bytes')?.get()
    expect(lag?.values[0]?.value).toBeGreaterThan(0)
  })

  await resume(pair.standby.url)
  for (const [name, read] of Object.entries(READS)) {
    await waitFor(async () => {
      await untilUsed(reader, true)
      const earlier = await readsOf(reader)
      expect(await read(scene), name).toBe(true)
      expect(await readsOf(reader), name).toEqual({ ...earlier, replica: earlier.replica + 1 })
    })
  }
})

test('a replica that refuses or is silent leaves its reads to the primary, and a promoted one is no replica any more', async () => {
  const scene = await startScene()
  const { pair, writer, reader, accountNumber } = scene
  const stillFound = async (sessionId: string, isUsed = false) => {
    await pay(writer, accountNumber, sessionId)
    for (let read = 0; read < 20; read++) {
      expect((await getTransaction(scene, sessionId)).transaction?.sessionId).toBe(sessionId)
    }
    await untilUsed(reader, isUsed)
    expect((await getTransaction(scene, sessionId)).transaction?.sessionId).toBe(sessionId)
  }
  await stillFound('before', true)
  await reader.proxy.block()
  await stillFound('refused')
  await reader.proxy.unblock()
  await stillFound('accepted', true)
  reader.proxy.silence()
  await stillFound('silent')
  reader.proxy.endSilence()
  await untilUsed(reader, true)

  await promote(pair)
  // Its log is longer than that of the primary.
  await query(pair.standby.url, 'create table other as select generate_series(1, 10000)')
  const before = await readsOf(reader)
  await stillFound('promoted')
  expect((await readsOf(reader)).replica).toBe(before.replica)
  await waitFor(() =>
    expect(reader.lines.map(({ fault }) => fault)).toContain('it is not a standby'),
  )
  await pair.standby.stop()
  await stillFound('stopped')
})

async function promote(pair: Pair): Promise<void> {
  await pair.promote()
  await waitFor(async () => {
    const rows = await query(pair.standby.url, 'select pg_is_in_recovery() as standby')
    expect(rows).toEqual([{ standby: false }])
  })
}

test('a standby of the old primary is no replica of the new one, however much it has replayed', async () => {
  const pair = await startPair()
  await migrated(pair.primary.url)
  const sibling = await pair.addStandby()
  const old = await startInstance(pair.primary.url)
  const { businessId, accountNumber } = await openBusinessOver(grpcTransport(old.grpcUrl))
  await pair.caughtUp()
  await old.close()
  await promote(pair)
  // The sibling still follows the old primary, whose log grows beyond that of the new one.
  await query(pair.primary.url, 'create table other as select generate_series(1, 300000)')
  const reader = await startReader(pair.standby.url, sibling.url)
  await pay(reader, accountNumber, 'later')
  await untilUsed(reader, false)
  await waitFor(() => {
    const faults = reader.lines.map(({ fault }) => fault)
    expect(faults).toContain('it does not follow the primary on timeline 2')
  })
  const { transaction } = await reader
    .client(TransactionService)
    .getTransaction({ businessId, sessionId: 'later' })
  expect(transaction?.sessionId).toBe('later')
  expect(await readsOf(reader)).toMatchObject({ replica: 0 })
})
