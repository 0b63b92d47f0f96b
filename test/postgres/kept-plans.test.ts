import type { Pool, PoolClient } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { fresh, openAccount } from '../overview/scene.ts'
import { createPayoutScene } from '../payouts/scene.ts'
import { useDatabase } from '../support/database.ts'
import { startReceiver } from '../support/receiver.ts'
import { useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'

/** PostgreSQL makes a plan of its own for each of the first five executions of a statement, and may keep the next one. */
const CALLS = 7
const BATCHES = 4
const BATCH_SIZE = 500

const db = useDatabase()
const service = useService({}, undefined, db)

test('a plan that was made while a table was small does not read all of it later', async () => {
  const scene = createPayoutScene(service)
  const receiver = await startReceiver()
  onTestFinished(() => receiver.close())
  const businessId = await scene.funded()
  await service.client(WebhookService).createEndpoint({ businessId, url: receiver.url })
  const { secretKey } = await service.client(BusinessService).issueKey({ businessId })
  const { accountNumber } = await openAccount(service, businessId)
  const transactions = service.client(TransactionService)
  const payment = () => {
    return { bank: Bank.BANK_9PSB, accountNumber, amountMinor: 100n, sessionId: fresh('session') }
  }
  const useAll = async () => {
    for (let call = 0; call < CALLS; call++) {
      const paid = payment()
      await transactions.recordPayment(paid)
      const found = await service.post('getTransaction/', secretKey, { session_id: paid.sessionId })
      expect(found.status).toBe(200)
      await service.client(SettlementService).getBalance({ businessId })
      await scene.request(businessId, 100n)
    }
  }
  const { durablePool, relaxedPool, recordingPool } = db.database
  await durablePool.query('analyze')
  await useAll()
  for (let batch = 0; batch < BATCHES; batch++) {
    await transactions.recordPayments({ payments: Array.from({ length: BATCH_SIZE }, payment) })
  }
  await useAll()
  const sent = 2 * CALLS + BATCHES * BATCH_SIZE
  await waitFor(() => expect(receiver.requests.length).toBeGreaterThanOrEqual(sent))
  const plannedAnew: Record<string, number> = {}
  for (const pool of [durablePool, relaxedPool, recordingPool]) {
    await eachSession(pool, async (session) => {
      // Otherwise a session reports what it has counted after ten seconds without work.
      await session.query('select pg_stat_force_next_flush()')
      const { rows } = await session.query<{ name: string; plans: number }>(
        'select name, custom_plans::int as plans from pg_prepared_statements',
      )
      for (const { name, plans } of rows) plannedAnew[name] = plans + (plannedAnew[name] ?? 0)
    })
  }
  expect(plannedAnew).toMatchObject({ 'payout-state': 0, 'webhook-dispatch-1000': 0 })
  const { rows } = await durablePool.query<{ name: string; rows: number; read: number }>(
    `select relname as name, n_live_tup::int as rows, seq_tup_read::int as read
      from pg_stat_user_tables where n_live_tup > 50`,
  )
  expect(rows.filter(({ rows: all, read }) => read > all)).toEqual([])
  const largest = rows.filter(({ rows: all }) => all >= BATCHES * BATCH_SIZE)
  expect(largest.length).toBeGreaterThan(3)
})

async function eachSession(pool: Pool, run: (session: PoolClient) => Promise<void>): Promise<void> {
  const sessions = await Promise.all(Array.from({ length: pool.totalCount }, () => pool.connect()))
  for (const session of sessions) {
    await run(session)
    session.release()
  }
}
