import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { ConnectError } from '@connectrpc/connect'
import { expect, test } from 'vitest'
import { ErrorInfoSchema } from '../../gen/google/rpc/error_details_pb.ts'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { NotificationService } from '../../gen/inflow/notification/v1/notification_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { RecorderKind, TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  type ImportedTransactionSchema,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { ImportOutcome, ImportOutcomeSchema } from '../../gen/inflow/type/v1/import_pb.ts'
import { enumName } from '../../src/cli/options.ts'
import { notify, payee, payment } from '../notifications/scene.ts'
import { findDiscrepancies } from '../settlement/fixture.ts'
import { tamper } from '../support/database.ts'
import { useFakeBank } from '../support/fake-bank.ts'
import { useService } from '../support/service.ts'

const bank = useFakeBank()
const service = useService({ BANKS: '9PSB=live' }, bank.connectors)
const transactions = () => service.client(TransactionService)

type Row = MessageInitShape<typeof ImportedTransactionSchema>

let sessions = 0

/** A payment of 1,000 naira in the history of an account. */
function row(accountNumber: string, overrides: Row = {}): Row & { sessionId: string } {
  sessions += 1
  return {
    sessionId: `history-${sessions}`,
    bank: Bank.BANK_9PSB,
    accountNumber,
    amountMinor: 100_000n,
    paidAt: timestampFromMs(Date.UTC(2025, 5, 1)),
    payer: { name: 'BOLA ADE' },
    narration: 'rent',
    ...overrides,
  } as ReturnType<typeof row>
}

async function importAll(businessId: string, rows: readonly Row[], test = false) {
  const request = { businessId, test, transactions: [...rows] }
  const { results } = await transactions().importTransactions(request)
  return results.map(({ outcome, violations }) => [
    enumName(ImportOutcomeSchema, outcome),
    ...violations.map(({ field }) => field),
  ])
}

const balanceOf = async (businessId: string) => {
  const { balance } = await service.client(SettlementService).getBalance({ businessId })
  return balance!
}

const reasonOf = (error: unknown) =>
  ConnectError.from(error).findDetails(ErrorInfoSchema)[0]?.reason

test('a history is found by look-ups and lists, and is in no balance, settlement or event', async () => {
  const { id: businessId, key } = await service.business()
  const opened = { businessId, reference: 'order-1', bank: Bank.BANK_9PSB }
  const customer = { firstName: 'Ada', lastName: 'Obi', email: 'a@b.co', phone: '08012345678' }
  const { account } = await service.client(AccountService).createAccount({ ...opened, ...customer })
  const number = account!.accountNumber
  const [settled, unsettled] = [row(number), row(number, { settled: false })]
  const failed = row(number, { status: TransactionStatus.FAILED })
  const reversed = row(number, { status: TransactionStatus.REVERSED })
  const rows = [settled, unsettled, failed, reversed]
  expect((await importAll(businessId, rows)).flat()).toEqual(rows.map(() => 'IMPORTED'))
  expect((await importAll(businessId, rows)).flat()).toEqual(rows.map(() => 'DUPLICATE'))

  const get = async ({ sessionId }: { sessionId: string }) =>
    (await transactions().getTransaction({ businessId, sessionId })).transaction!
  expect(await get(settled)).toMatchObject({
    settled: true,
    imported: true,
    status: TransactionStatus.SUCCESS,
    payer: { name: 'BOLA ADE' },
    recorder: { kind: RecorderKind.IMPORT, id: 'bootstrap' },
  })
  const waiting = await get(unsettled)
  expect(waiting).toMatchObject({ settled: false, imported: true })
  expect(waiting.settlesAt).toBeUndefined()
  expect(await get(reversed)).toMatchObject({ settled: false, status: TransactionStatus.REVERSED })
  const { transactions: listed } = await transactions().listTransactions({ businessId })
  expect(listed.map(({ imported }) => imported)).toEqual([true, true, true, true])
  const shown = await service.post('getTransaction/', key, { session_id: settled.sessionId })
  expect(shown.body.data.is_settled).toBe(true)

  expect(await balanceOf(businessId)).toMatchObject({ pendingMinor: 0n, availableMinor: 0n })
  const settlement = service.client(SettlementService)
  expect(await settlement.previewSettlement({ businessId })).toMatchObject({
    transactionCount: 0n,
    grossMinor: 0n,
  })
  const { rows: events } = await service.database.durablePool.query(
    "select kind from outbox where business_id = $1 and kind <> 'ACCOUNT_CREATED'",
    [businessId],
  )
  expect(events).toEqual([])
  expect(await findDiscrepancies(service.database.durablePool)).toEqual([])
})

test('an imported payment is reversed neither by an operator nor by its bank', async () => {
  const { businessId, accountNumber } = await payee(service)
  const reported = payment(accountNumber, { state: 'reversed' })
  const imported = row(accountNumber, {
    sessionId: reported.session,
    amountMinor: BigInt(reported.kobo),
  })
  await importAll(businessId, [imported])
  const { transaction } = await transactions().getTransaction({
    businessId,
    sessionId: reported.session,
  })
  const refused = transactions().reverseTransaction({ transactionId: transaction!.id, reason: 'x' })
  expect(reasonOf(await refused.catch((error: unknown) => error))).toBe('imported_transaction')
  // Nor past the code of this version.
  const { durablePool } = service.database
  const update = durablePool.query("update transaction set status = 'REVERSED' where id = $1", [
    transaction!.id,
  ])
  await expect(update).rejects.toThrow('cannot go from SUCCESS to REVERSED')
  const cleared = durablePool.query(
    'update transaction set imported_settled = null where id = $1',
    [transaction!.id],
  )
  await expect(cleared).rejects.toThrow('cannot be changed')
  bank.payments.set(reported.key, reported)
  await notify(service, reported)
  const { notifications } = await service.client(NotificationService).listNotifications({})
  const held = notifications.find(({ cause }) => cause.includes('imported'))
  expect(held?.cause).toBe(
    'the bank has reversed an imported payment, whose money is in no balance here',
  )
  expect(await balanceOf(businessId)).toMatchObject({ pendingMinor: 0n, availableMinor: 0n })
})

test('a rejected row leaves the others', async () => {
  const { businessId, accountNumber } = await payee(service)
  const stranger = await payee(service)
  const first = row(accountNumber)
  const rows = [
    first,
    row(stranger.accountNumber),
    row(accountNumber, { status: TransactionStatus.PENDING }),
    row(accountNumber, { status: TransactionStatus.FAILED, settled: true }),
    row(accountNumber, { amountMinor: 0n, sessionId: 'a b' }),
    row(accountNumber, { paidAt: timestampFromMs(Date.now() + 10 * 86_400_000) }),
    { ...first },
    { ...first, amountMinor: 5n },
    row(accountNumber),
  ]
  expect(await importAll(businessId, rows)).toEqual([
    ['IMPORTED'],
    ['REJECTED', 'accountNumber'],
    ['REJECTED', 'status'],
    ['REJECTED', 'settled'],
    ['REJECTED', 'sessionId', 'amountMinor'],
    ['REJECTED', 'paidAt'],
    ['DUPLICATE'],
    ['REJECTED', 'sessionId'],
    ['IMPORTED'],
  ])
  expect(await importAll(businessId, [{ ...first, settled: false }])).toEqual([
    ['REJECTED', 'sessionId'],
  ])
  const theirs = row(stranger.accountNumber, { sessionId: first.sessionId })
  expect(await importAll(stranger.businessId, [theirs])).toEqual([['REJECTED', 'sessionId']])
})

test('validate_only imports nothing; the audit log has the count of an import', async () => {
  const { businessId, accountNumber } = await payee(service)
  const fresh = row(accountNumber)
  const request = { businessId, validateOnly: true, transactions: [fresh] }
  const { results } = await transactions().importTransactions(request)
  expect(results[0]!.outcome).toBe(ImportOutcome.IMPORTED)
  expect(await importAll(businessId, [fresh, row(accountNumber, { amountMinor: -1n })])).toEqual([
    ['IMPORTED'],
    ['REJECTED', 'amountMinor'],
  ])
  const { entries } = await service.client(AdminService).listAuditEntries({ pageSize: 1 })
  expect(entries[0]).toMatchObject({ action: 'transaction.import', targetId: businessId })
  expect(JSON.parse(entries[0]!.details)).toEqual({ transactions: 1, mode: 'live' })
})

test('the verification of the ledger finds postings of an imported payment', async () => {
  const { businessId, accountNumber } = await payee(service)
  const imported = row(accountNumber)
  await importAll(businessId, [imported])
  const { durablePool } = service.database
  const values = [imported.sessionId]
  await tamper(
    durablePool,
    `insert into ledger_posting (transaction_id, kind, business_id, debit_account, credit_account,
        amount_minor, created_at, live)
      select id, 'payment', business_id, 'clearing:9PSB', 'pending', amount_minor, created_at, live
      from transaction where session_id = $1`,
    values,
  )
  expect((await findDiscrepancies(durablePool)).join('\n')).toContain(
    'was imported, so it has no postings',
  )
})
