import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt'
import { Code, ConnectError } from '@connectrpc/connect'
import { describe, expect, test } from 'vitest'
import { AccountStatus, IdType } from '../../gen/inflow/account/v1/account_pb.ts'
import {
  AccountService,
  type ImportedAccountSchema,
} from '../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import {
  RecordOutcome,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { ImportOutcomeSchema } from '../../gen/inflow/type/v1/import_pb.ts'
import { enumName } from '../../src/cli/options.ts'
import { notify, payment } from '../notifications/scene.ts'
import { creation } from '../protocols/rest/rest.ts'
import { useDatabase } from '../support/database.ts'
import { useFakeBank } from '../support/fake-bank.ts'
import { CUSTOMER } from '../support/opened-account.ts'
import { issueToken, MASTER_KEY, useService } from '../support/service.ts'

const bank = useFakeBank()
const db = useDatabase()
// Of a given database, the sandbox opens no live accounts.
const service = useService(
  {
    get DATABASE_URL() {
      return db.url
    },
    MASTER_KEY: MASTER_KEY.toString('base64'),
    BANKS: '9PSB=live',
  },
  bank.connectors,
  db,
)
const accounts = () => service.client(AccountService)

type Row = MessageInitShape<typeof ImportedAccountSchema>

let numbers = 4_000_000_000

/** A valid row, with a number and a reference of its own. */
function row(overrides: Row = {}): Row & { accountNumber: string; providerReference: string } {
  numbers += 1
  return {
    reference: `own-${numbers}`,
    providerReference: `R-PROVIDER-${numbers}`,
    bank: Bank.BANK_9PSB,
    accountNumber: `${numbers}`,
    accountName: 'ACME/Ada Obi',
    ...CUSTOMER,
    ...overrides,
  } as ReturnType<typeof row>
}

async function importAll(businessId: string, rows: readonly Row[], test = false) {
  const { results } = await accounts().importAccounts({ businessId, test, accounts: [...rows] })
  return results.map(({ outcome, violations }) => [
    enumName(ImportOutcomeSchema, outcome),
    ...violations.map(({ field }) => field),
  ])
}

const accountsOf = async (businessId: string) => {
  const { rows } = await service.database.durablePool.query(
    'select count(*)::int as count from account where business_id = $1',
    [businessId],
  )
  return rows[0].count as number
}

test('imports an account with what it was opened with, and repeats nothing', async () => {
  const { id } = await service.business()
  const openedAt = timestampFromMs(Date.UTC(2025, 2, 1))
  const imported = row({ openedAt, idType: IdType.BVN, idNumber: '22222222222' })
  expect(await importAll(id, [imported])).toEqual([['IMPORTED']])
  const { account } = await accounts().getAccount({
    businessId: id,
    reference: imported.reference!,
  })
  expect(account).toMatchObject({
    reference: imported.providerReference,
    merchantReference: imported.reference,
    accountNumber: imported.accountNumber,
    accountName: 'ACME/Ada Obi',
    status: AccountStatus.ACTIVE,
    createdAt: openedAt,
    simulated: false,
    live: true,
    bankConfirmed: false,
  })
  expect(timestampMs(account!.importedAt!)).toBeGreaterThan(Date.now() - 60_000)
  const byNumber = { idNumber: '22222222222', businessId: id }
  expect((await accounts().listAccounts(byNumber)).accounts).toHaveLength(1)
  expect(await importAll(id, [imported])).toEqual([['DUPLICATE']])
  expect(await accountsOf(id)).toBe(1)
  const { rows } = await service.database.durablePool.query(
    "select count(*)::int as count from outbox where business_id = $1 and kind = 'ACCOUNT_CREATED'",
    [id],
  )
  expect(rows[0].count).toBe(0)
})

test('a business that repeats generateVirtualAccount gets the imported account', async () => {
  const { id, key } = await service.business()
  const request = creation({
    bank: '9PSB',
    reference: 'moved',
    idType: 'bvn',
    idNumber: '12345678901',
  })
  const moved = row({ reference: 'moved', idType: IdType.BVN, idNumber: '12345678901' })
  const loneKind = row({ idType: IdType.NIN })
  expect(await importAll(id, [moved, loneKind])).toEqual([['IMPORTED'], ['IMPORTED']])
  expect(await importAll(id, [{ ...loneKind, idType: IdType.UNSPECIFIED }])).toEqual([
    ['DUPLICATE'],
  ])
  const before = bank.asked.length
  const { status, headers, body } = await service.post('generateVirtualAccount/', key, request)
  expect(status).toBe(200)
  expect(headers.get('idempotent-replayed')).toBe('true')
  expect(body.data.reference).toBe(moved.providerReference)
  expect(body.data.account[0].account_number).toBe(moved.accountNumber)
  expect(bank.asked).toHaveLength(before)
  const other = await service.post('generateVirtualAccount/', key, {
    ...request,
    phone: '08012345679',
  })
  expect(other.body.code).toBe('duplicate_reference')
  expect(await accountsOf(id)).toBe(2)
})

test('a rejected row leaves the others, with every fault by its field', async () => {
  const { id } = await service.business()
  const rows = [
    row(),
    row({ phone: 'x', email: 'ada', providerReference: 'X-1' }),
    row({ accountNumber: '123' }),
    row({ openedAt: timestampFromMs(Date.now() + 3_600_000) }),
    row({ reference: 'R-346791ACDEFGHJKMNPQR'.replace('1', '3') }),
    row({ bank: Bank.BANK_PROVIDUS }),
    row(),
  ]
  expect(await importAll(id, rows)).toEqual([
    ['IMPORTED'],
    ['REJECTED', 'providerReference', 'email', 'phone'],
    ['REJECTED', 'accountNumber'],
    ['REJECTED', 'openedAt'],
    ['REJECTED', 'reference'],
    // It is not connected here, and would be credited by nothing.
    ['REJECTED', 'bank'],
    ['IMPORTED'],
  ])
  expect(await accountsOf(id)).toBe(2)
})

describe('what contradicts another account', () => {
  test('is rejected by the field, without a word about whose that is', async () => {
    const [one, two] = [await service.business(), await service.business()]
    const taken = row()
    await importAll(one.id, [taken])
    const { results } = await accounts().importAccounts({
      businessId: two.id,
      accounts: [
        row({ accountNumber: taken.accountNumber }),
        row({ providerReference: taken.providerReference }),
        row({ reference: taken.reference! }),
      ],
    })
    expect(results.map(({ violations }) => violations.map(({ field }) => field))).toEqual([
      ['accountNumber'],
      ['providerReference'],
      [],
    ])
    expect(JSON.stringify(results)).not.toContain(one.id)
    expect(await importAll(one.id, [{ ...taken, lastName: 'Bello' }])).toEqual([
      ['REJECTED', 'reference', 'providerReference', 'accountNumber'],
    ])
  })

  test('is rejected if a reference would name two accounts of the business', async () => {
    const [{ id, key }, other] = [await service.business(), await service.business()]
    const open = (reference: string) =>
      service.post('generateVirtualAccount/', key, creation({ bank: '9PSB', reference }))
    expect((await open('R-OPENED')).status).toBe(200)
    const alike = row({ reference: 'R-ALIKE', providerReference: 'R-ALIKE' })
    const moved = row({ providerReference: 'R-MOVED' })
    expect(await importAll(id, [moved, alike])).toEqual([['IMPORTED'], ['IMPORTED']])
    const rows = [
      row({ reference: 'R-MOVED' }),
      row({ providerReference: 'R-OPENED' }),
      alike,
      row({ reference: 'own-x', providerReference: 'R-Y' }),
      row({ reference: 'R-Y' }),
      row({ reference: 'R-Z' }),
      row({ providerReference: 'R-Z' }),
    ]
    const validated = await accounts().importAccounts({
      businessId: id,
      accounts: rows,
      validateOnly: true,
    })
    const expected = [
      ['REJECTED', 'reference'],
      ['REJECTED', 'providerReference'],
      ['DUPLICATE'],
      ['IMPORTED'],
      ['REJECTED', 'reference'],
      ['IMPORTED'],
      ['REJECTED', 'providerReference'],
    ]
    const outcomes = validated.results.map(({ outcome }) => enumName(ImportOutcomeSchema, outcome))
    expect(outcomes).toEqual(expected.map(([outcome]) => outcome))
    expect(await importAll(id, rows)).toEqual(expected)
    const refused = await open('R-MOVED')
    expect([refused.status, refused.body.errors[0].field]).toEqual([422, 'reference'])
    expect((await open('R-OPENED')).headers.get('idempotent-replayed')).toBe('true')
    // Each business has its own references.
    expect(await importAll(other.id, [row({ reference: 'R-MOVED' })])).toEqual([['IMPORTED']])
  })

  test('in one call, the first row counts, and a repeat is a duplicate', async () => {
    const { id } = await service.business()
    const first = row()
    const rows = [
      first,
      { ...first },
      row({ accountNumber: first.accountNumber }),
      row({ reference: first.reference! }),
      { ...first, accountName: 'ACME/Another' },
    ]
    expect(await importAll(id, rows)).toEqual([
      ['IMPORTED'],
      ['DUPLICATE'],
      ['REJECTED', 'accountNumber'],
      ['REJECTED', 'reference'],
      ['REJECTED', 'reference', 'providerReference', 'accountNumber'],
    ])
  })
})

test('the same call twice at the same time imports each account once', async () => {
  const { id } = await service.business()
  const rows = Array.from({ length: 300 }, () => row())
  const outcomes = await Promise.all([importAll(id, rows), importAll(id, rows.toReversed())])
  const [one, two] = [outcomes[0]!.flat(), outcomes[1]!.toReversed().flat()]
  for (const [index, outcome] of one.entries()) {
    expect([outcome, two[index]].sort()).toEqual(['DUPLICATE', 'IMPORTED'])
  }
  expect(await accountsOf(id)).toBe(300)
})

test('validate_only says what would be, and imports nothing', async () => {
  const { id: businessId } = await service.business()
  const there = row()
  await importAll(businessId, [there])
  const { results } = await accounts().importAccounts({
    businessId,
    validateOnly: true,
    accounts: [there, row(), row({ phone: '' })],
  })
  expect(results.map(({ outcome }) => enumName(ImportOutcomeSchema, outcome))).toEqual([
    'DUPLICATE',
    'IMPORTED',
    'REJECTED',
  ])
  expect(await accountsOf(businessId)).toBe(1)
})

test('only an operator imports, and the audit log has the count', async () => {
  const { id: businessId } = await service.business()
  const admin = service.client(AdminService)
  const { secret } = await issueToken(service, ['payments:write'])
  const refused = service
    .client(AccountService, secret)
    .importAccounts({ businessId, accounts: [row()] })
  expect(ConnectError.from(await refused.catch((error) => error)).code).toBe(Code.PermissionDenied)
  await importAll(businessId, [row(), row(), row({ phone: '' })])
  const { entries } = await admin.listAuditEntries({ pageSize: 1 })
  expect(entries[0]).toMatchObject({ action: 'account.import', targetId: businessId })
  expect(JSON.parse(entries[0]!.details)).toEqual({ accounts: 2, mode: 'live' })
})

describe('a payment into an imported account', () => {
  test('is credited once the bank confirms it, and confirms the account', async () => {
    const { id: businessId } = await service.business()
    const imported = row()
    await importAll(businessId, [imported])
    const reported = payment(imported.accountNumber)
    // The bank does not know the payment, so it confirms nothing.
    await notify(service, reported)
    const pending = async () => {
      const { balance } = await service.client(SettlementService).getBalance({ businessId })
      return balance!.pendingMinor
    }
    const get = async () =>
      (await accounts().getAccount({ businessId, reference: imported.reference! })).account!
    expect(await pending()).toBe(0n)
    expect((await get()).bankConfirmed).toBe(false)
    const paid = payment(imported.accountNumber)
    bank.payments.set(paid.key, paid)
    await notify(service, paid)
    expect(await pending()).toBe(150_050n)
    expect((await get()).bankConfirmed).toBe(true)
    const { accounts: listed } = await accounts().listAccounts({ businessId })
    expect(listed[0]!.bankConfirmed).toBe(true)
    const { transaction } = await service
      .client(TransactionService)
      .getTransaction({ businessId, sessionId: paid.session })
    expect(transaction!.accountReference).toBe(imported.providerReference)
  })

  test('that an internal service reports needs the bank’s confirmation, until the bank has confirmed one', async () => {
    const { id: businessId } = await service.business()
    const imported = row()
    await importAll(businessId, [imported])
    const report = (sessionId: string) =>
      service.client(TransactionService).recordPayment({
        bank: Bank.BANK_9PSB,
        accountNumber: imported.accountNumber,
        sessionId,
        amountMinor: 150_050n,
      })
    const made = payment(imported.accountNumber)
    const paid = { ...made, key: made.session }
    const refused = await report(paid.session).catch((error) => ConnectError.from(error))
    expect(refused).toMatchObject({ code: Code.FailedPrecondition })
    const { rows } = await db.database.durablePool.query(
      'select from payment_session where session_id = $1',
      [paid.session],
    )
    expect(rows).toEqual([])
    bank.payments.set(paid.key, paid)
    expect((await report(paid.session)).outcome).toBe(RecordOutcome.RECORDED)
    // By default the word of an internal service is enough now.
    const unknown = payment(imported.accountNumber)
    expect((await report(unknown.session)).outcome).toBe(RecordOutcome.RECORDED)
    const own = await accounts().getAccount({ businessId, reference: imported.reference! })
    expect(own.account!.bankConfirmed).toBe(true)
  })

  test.each([
    ['that arrived before the import is assigned, and confirms the account', true],
    ['into another number is assigned, and confirms nothing', false],
  ])('%s', async (_title, isOwn) => {
    const { id: businessId } = await service.business()
    const imported = row()
    const paid = payment(isOwn ? imported.accountNumber : row().accountNumber)
    bank.payments.set(paid.key, paid)
    await notify(service, paid)
    await importAll(businessId, [imported])
    const reconciliation = service.client(ReconciliationService)
    const { payments } = await reconciliation.listUnmatchedPayments({})
    const unmatchedPaymentId = payments.find(({ sessionId }) => sessionId === paid.session)!.id
    const request = { businessId, reference: imported.reference! }
    const note = 'the payer called'
    await reconciliation.assignUnmatchedPayment({ unmatchedPaymentId, ...request, note })
    expect((await accounts().getAccount(request)).account!.bankConfirmed).toBe(isOwn)
    const { balance } = await service.client(SettlementService).getBalance({ businessId })
    expect(balance!.pendingMinor).toBeGreaterThan(0n)
  })
})
