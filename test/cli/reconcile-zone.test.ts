import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { payee } from '../notifications/scene.ts'
import { ADMIN_TOKEN, useService } from '../support/service.ts'
import { runHere, temporaryFolder } from './run-inflow.ts'

const service = useService()

function reconcile(header: string, row: string, ...args: string[]) {
  const file = join(temporaryFolder(), 'statement.csv')
  writeFileSync(file, `${header}\n${row}\n`)
  return runHere(['reconcile', '--bank', '9PSB', '--file', file, '--json', ...args], {
    INFLOW_GRPC_URL: service.grpcUrl,
    INFLOW_TOKEN: ADMIN_TOKEN,
    TZ: 'UTC',
  })
}

test('--from and --to are Lagos times like the rows, on a machine in another zone', async () => {
  const { accountNumber } = await payee(service)
  const transactions = service.client(TransactionService)
  const record = (sessionId: string, utc: number) =>
    transactions.recordPayment({
      ...{ bank: Bank.BANK_9PSB, accountNumber, sessionId, amountMinor: 100n },
      paidAt: { seconds: BigInt(utc / 1_000) },
    })
  // 10:00 and 00:30 in Lagos.
  await record('listed', Date.UTC(2026, 10, 20, 9))
  await record('extra', Date.UTC(2026, 10, 19, 23, 30))
  const { stdout } = await reconcile(
    'session,account,amount,time',
    `listed,${accountNumber},1.00,2026-11-20 10:00:00`,
    ...['--from', '2026-11-20 00:00:00', '--to', '2026-11-21 00:00:00'],
  )
  const report = JSON.parse(stdout)
  expect(report.discrepancies).toMatchObject([{ finding: 'EXTRA', sessionId: 'extra' }])
  expect(report).toMatchObject({ from: '2026-11-20 00:00:00', to: '2026-11-21 00:00:00' })
  const refused = await reconcile('session,account,amount', 'a,1,1', '--from', 'yesterday')
  expect(refused.stderr).toContain('in Africa/Lagos')
})

test('an error names the headers that were found and those that are known', async () => {
  const errorOf = (stderr: string): string => JSON.parse(stderr).error.message
  const refused = await reconcile('Ref,NUBAN,Credit', 'a,1,1')
  expect(refused.code).toBe(2)
  const message = errorOf(refused.stderr)
  expect(message).toMatch(/no header matches session \(known: sessionid, session, .*bankkey\)/)
  expect(message).toMatch(
    /account \(known: accountnumber, .*\); found: "Ref", "NUBAN", "Credit"; name/,
  )
  const named = await reconcile('Ref,NUBAN,Credit', 'a,1,1', '--columns', 'session=Reference')
  expect(errorOf(named.stderr)).toContain(
    'there is no column "Reference"; found: "Ref", "NUBAN", "Credit"',
  )
})
