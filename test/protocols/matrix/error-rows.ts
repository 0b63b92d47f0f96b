import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { TransactionStatus } from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { MAGIC_PHONES } from '../../../src/banks/sandbox.ts'
import { encodeCursor } from '../../../src/events/cursor.ts'
import { creation } from '../rest/rest.ts'
import { BANK_ERRORS } from './bank-rows.ts'
import { HELD_ERRORS } from './held-rows.ts'
import { OVERVIEW_ERRORS } from './overview-rows.ts'
import { CUSTOMER, importedText, type Make, type Request, type Scene } from './scene.ts'
import { SESSION_ERRORS } from './session-rows.ts'
import { SETTLEMENT_ERRORS } from './settlement-rows.ts'
import { THIRD_PARTY_ERRORS } from './thirdparty-rows.ts'
import { WEBHOOK_ERRORS } from './webhook-rows.ts'

const invalid =
  (request: Request): Make =>
  () =>
    request
const unconfirmed = (accountNumber: string, fresh: string) => ({
  bank: Bank.BANK_9PSB,
  accountNumber,
  sessionId: fresh.replaceAll(/[^\w]/g, '-').slice(-60),
  amountMinor: 1n,
})
/** An opening whose bank gave no clear response. */
async function openingInReview({ service, businessId }: Scene, reference: string) {
  await service
    .client(AccountService)
    .createAccount({ businessId, reference, bank: 1, ...CUSTOMER })
  await service.database.pool.query(
    `update account set status = 'PENDING', opening_state = 'MANUAL_REVIEW', account_number = null,
        account_name = null
      where merchant_reference = $1`,
    [reference],
  )
}
const nobodys: Make = () => ({ businessId: 'biz_nobody' })

/** A call for each error that an rpc names. Only `unavailable` is provoked in another way. */
export const ERRORS: Readonly<Record<string, Make>> = {
  'AccountService.CreateAccount validation_failed': invalid({ bank: 4, email: 'x' }),
  'AccountService.CreateAccount not_found': () => ({
    businessId: 'biz_nobody',
    reference: 'x',
    bank: 1,
    ...CUSTOMER,
  }),
  'AccountService.CreateAccount duplicate_reference': ({ businessId }) => ({
    businessId,
    reference: 'order-1',
    bank: Bank.BANK_PROVIDUS,
    ...CUSTOMER,
  }),
  'AccountService.CreateAccount bank_unavailable': ({ businessId }, fresh) => ({
    businessId,
    reference: fresh,
    bank: 1,
    ...CUSTOMER,
    phone: MAGIC_PHONES.refuses,
  }),
  'AccountService.CreateAccount bank_refused': ({ businessId }, fresh) => ({
    businessId,
    reference: fresh,
    bank: 1,
    ...CUSTOMER,
    phone: MAGIC_PHONES.refusesAlways,
  }),
  'AccountService.CreateAccount account_in_review': async (scene, fresh) => {
    await openingInReview(scene, fresh)
    return { businessId: scene.businessId, reference: fresh, bank: 1, ...CUSTOMER }
  },
  'AccountService.GetAccount validation_failed': invalid({ reference: ' ' }),
  'AccountService.GetAccount not_found': ({ businessId }) => ({ businessId, reference: 'nothing' }),
  'AccountService.ListAccounts validation_failed': invalid({ pageSize: 201, status: 99 }),
  'AdminService.IssueToken validation_failed': invalid({
    name: 'x',
    scopes: ['read'],
    businessIds: ['biz_nobody'],
  }),
  'AdminService.RevokeToken validation_failed': invalid({}),
  'AdminService.RevokeToken not_found': invalid({ tokenId: 'tok_nobody' }),
  'AdminService.ListTokens validation_failed': invalid({ pageSize: 201 }),
  'AdminService.VerifyAudit validation_failed': invalid({ from: 'garbage' }),
  'AdminService.ListAuditEntries validation_failed': invalid({ pageToken: 'garbage' }),
  'BusinessService.CreateBusiness validation_failed': invalid({ alias: 'a/b' }),
  'BusinessService.GetBusiness validation_failed': invalid({}),
  'BusinessService.GetBusiness not_found': nobodys,
  'BusinessService.ListBusinesses validation_failed': invalid({ pageSize: -1 }),
  'BusinessService.UpdateBusiness validation_failed': ({ businessId }) => ({
    businessId,
    name: '',
    alias: 'a/b',
  }),
  'BusinessService.UpdateBusiness not_found': nobodys,
  'BusinessService.IssueKey validation_failed': invalid({ expiresAt: { seconds: 1n } }),
  'BusinessService.ImportKey validation_failed': invalid({ secretKey: 'too short' }),
  'BusinessService.ImportKey not_found': invalid({
    ...{ businessId: 'biz_unknown', secretKey: importedText('unknown') },
  }),
  'BusinessService.ImportKey duplicate_key': async ({ service, businessId, otherBusinessId }) => {
    const secretKey = importedText('of another')
    await service.client(BusinessService).importKey({ businessId: otherBusinessId, secretKey })
    return { businessId, secretKey }
  },
  'BusinessService.UpdateKey validation_failed': ({ revokedKeyId }) => ({
    keyId: revokedKeyId,
    allowedCidrs: ['203.0.113.0/24', '203.0.113.0/33', 'example.com'],
  }),
  'BusinessService.UpdateKey not_found': invalid({ keyId: 'key_nobody' }),
  'BusinessService.UpdateKey key_inactive': ({ revokedKeyId }) => ({ keyId: revokedKeyId }),
  'BusinessService.RotateKey validation_failed': ({ revokedKeyId }) => ({
    keyId: revokedKeyId,
    overlap: { seconds: 2_592_001n },
  }),
  'BusinessService.RotateKey not_found': invalid({ keyId: 'key_nobody' }),
  'BusinessService.RotateKey key_inactive': ({ revokedKeyId }) => ({ keyId: revokedKeyId }),
  'BusinessService.IssueKey not_found': nobodys,
  'BusinessService.RevokeKey validation_failed': invalid({}),
  'BusinessService.RevokeKey not_found': invalid({ keyId: 'key_nobody' }),
  'BusinessService.ListKeys validation_failed': invalid({}),
  'BusinessService.ListKeys not_found': nobodys,
  'EventService.Subscribe validation_failed': invalid({ kinds: ['PAYMENT_NOTIFICATON'] }),
  'EventService.Subscribe invalid_cursor': invalid({ start: { case: 'cursor', value: 'garbage' } }),
  'EventService.Subscribe stale_cursor': invalid({
    start: { case: 'cursor', value: encodeCursor({ epoch: 999, position: 0n, tag: '' }) },
  }),
  'EventService.Subscribe expired_cursor': async ({ service }) => {
    const { pool } = service.database
    await pool.query('update event_retention set floor = 1')
    const { rows } = await pool.query('select epoch from sequencer')
    const cursor = encodeCursor({ epoch: rows[0].epoch, position: 0n, tag: '' })
    return { start: { case: 'cursor', value: cursor } }
  },
  'EventService.ListEvents validation_failed': invalid({ after: -1n, limit: 501 }),
  'EventService.GetEvent validation_failed': invalid({}),
  'EventService.GetEvent not_found': invalid({ eventId: 'evt_nowhere' }),
  'SandboxService.SimulateTransfer validation_failed': invalid({ accountNumber: '123' }),
  'SandboxService.SimulateTransfer not_found': invalid({
    accountNumber: '0000000000',
    amountMinor: 1n,
  }),
  'SandboxService.SimulateTransfer not_sandbox': ({ accountNumber }) => ({
    accountNumber,
    amountMinor: 1n,
  }),
  'ThirdPartyService.GenerateVirtualAccount validation_failed': invalid({ bank: 'PALMPAY' }),
  'ThirdPartyService.GenerateVirtualAccount duplicate_reference': invalid(
    creation({ firstName: 'Bola' }),
  ),
  'ThirdPartyService.GenerateVirtualAccount bank_unavailable': (_scene, fresh) =>
    creation({ reference: fresh, phone: MAGIC_PHONES.refuses }),
  'ThirdPartyService.GenerateVirtualAccount bank_refused': (_scene, fresh) =>
    creation({ reference: fresh, phone: MAGIC_PHONES.refusesAlways }),
  'ThirdPartyService.GenerateVirtualAccount account_in_review': async (scene, fresh) => {
    await openingInReview(scene, fresh)
    return creation({ reference: fresh, ...CUSTOMER })
  },
  'ThirdPartyService.GetTransaction validation_failed': invalid({ sessionId: 'a b' }),
  'ThirdPartyService.GetTransaction not_found': invalid({ sessionId: 'nothing' }),
  'ThirdPartyService.GetVirtualAccount validation_failed': invalid({}),
  'ThirdPartyService.GetVirtualAccount not_found': invalid({ reference: 'nothing' }),
  'ThirdPartyService.ListTransactions validation_failed': invalid({ pageSize: 201, status: 'x' }),
  'ThirdPartyService.ListEvents validation_failed': invalid({ after: -1n, limit: -1 }),
  'TransactionService.RecordPayment validation_failed': invalid({ sessionId: 'a b', bank: 9 }),
  'TransactionService.RecordPayment payment_unconfirmed': ({ accountNumber }, fresh) => ({
    ...unconfirmed(accountNumber, fresh),
    status: TransactionStatus.FAILED,
  }),
  'TransactionService.RecordPayment bank_key_required': ({ accountNumber }, fresh) => ({
    ...unconfirmed(accountNumber, fresh),
    bank: Bank.BANK_PROVIDUS,
  }),
  'TransactionService.RecordPayment bank_unavailable': ({ accountNumber }, fresh) =>
    unconfirmed(accountNumber, fresh),
  'TransactionService.RecordPayments validation_failed': invalid({ payments: [] }),
  'TransactionService.GetTransaction validation_failed': invalid({}),
  'TransactionService.GetTransaction not_found': ({ businessId }) => ({
    businessId,
    sessionId: 'nothing',
  }),
  'TransactionService.ListTransactions validation_failed': ({ businessId }) => ({
    businessId,
    pageToken: 'garbage',
  }),
  ...BANK_ERRORS,
  ...HELD_ERRORS,
  ...OVERVIEW_ERRORS,
  ...SESSION_ERRORS,
  ...SETTLEMENT_ERRORS,
  ...WEBHOOK_ERRORS,
  ...THIRD_PARTY_ERRORS,
}

/** What only an instance with live banks answers, none of which can be reached. */
export const OF_LIVE_BANKS: ReadonlySet<string> = new Set([
  'SandboxService.SimulateTransfer not_sandbox',
  'AccountService.CloseAccount bank_unavailable',
  'ThirdPartyService.CloseVirtualAccount bank_unavailable',
  'ThirdPartyService.RequeryTransaction requery_unsupported',
  'TransactionService.RecordPayment payment_unconfirmed',
  'TransactionService.RecordPayment bank_key_required',
  'TransactionService.RecordPayment bank_unavailable',
])
