import pg from 'pg'
import { expect, test } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { useDatabase } from '../support/database.ts'
import { grpcTransport } from '../support/grpc-client.ts'
import { openBusinessOver } from '../support/opened-account.ts'
import { useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'

const db = useDatabase(6)
const service = useService({}, undefined, db)

test('lists cannot take the connections that record payments', async () => {
  const { accountNumber } = await openBusinessOver(grpcTransport(service.grpcUrl))
  const locker = new pg.Client({ connectionString: db.url })
  await locker.connect()
  try {
    await locker.query('begin')
    await locker.query('lock table audit_head in access exclusive mode')
    const admin = service.client(AdminService)
    // On a slow machine they may be given up before the lock ends.
    const lists = Array.from({ length: 6 }, () => admin.listAuditEntries({}).catch(() => undefined))
    await waitFor(() => expect(db.database.durablePool.idleCount).toBe(0))
    await waitFor(() => expect(db.database.durablePool.totalCount).toBe(6))
    const payment = { bank: Bank.BANK_PROVIDUS, accountNumber }
    const recorded = await service
      .client(TransactionService)
      .recordPayment({ ...payment, sessionId: 'session-1', amountMinor: 100n })
    expect(recorded.outcome).toBe(1)
    await waitFor(async () => expect((await fetch(`${service.httpUrl}/readyz`)).status).toBe(200))
    await locker.query('rollback')
    await Promise.all(lists)
  } finally {
    await locker.end()
  }
})
