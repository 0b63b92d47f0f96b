import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { TransactionStatus } from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { MAGIC_PHONES } from '../../../src/banks/sandbox.ts'
import { REASONS } from '../../../src/core/errors.ts'
import { encodeCursor } from '../../../src/events/cursor.ts'
import { CUSTOMER } from '../../support/opened-account.ts'
import { creation } from '../rest/rest.ts'
import { BANK_ERRORS } from './bank-rows.ts'
import { MONEY_ERRORS } from './money-rows.ts'
import { PAYOUT_ERRORS } from './payout-rows.ts'
import { HAPPY } from './rows.ts'
import { importedText, invalid, type Make, openAccount, type Scene } from './scene.ts'
import { THIRD_PARTY_ERRORS } from './thirdparty-rows.ts'
import { WEBHOOK_ERRORS } from './webhook-rows.ts'

const unconfirmed = (accountNumber: string, fresh: string) => ({
  bank: Bank.BANK_9PSB,
  accountNumber,
  sessionId: fresh.replaceAll(/[^\w]/g, '-').slice(-60),
  amountMinor: 1n,
})
/** An opening whose bank gave no clear response. */
async function openingInReview(scene: Scene, reference: string) {
  await scene.service.database.durablePool.query(
    `update account set status = 'PENDING', opening_state = 'MANUAL_REVIEW', account_number = null,
        account_name = null
      where id = $1`,
    [(await openAccount(scene, reference)).id],
  )
}

/** What the comments in proto/ promise: "Service.Rpc reason" → gRPC code. */
export const NAMED_ERRORS: ReadonlyMap<string, string> = readNamedErrors()

function readNamedErrors(): Map<string, string> {
  const root = join(import.meta.dirname, '../../../proto/inflow')
  const named = new Map<string, string>()
  for (const file of readdirSync(root, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('_service.proto')) continue
    const text = readFileSync(join(root, file), 'utf8')
    const service = /^service (\w+)/m.exec(text)?.[1]
    for (const [, comment = '', rpc] of text.matchAll(/((?: {2}\/\/.*\n)*) {2}rpc (\w+)\(/g)) {
      const errors = comment.replaceAll(/\n? *\/\/ ?/g, ' ').split('Errors:')[1] ?? ''
      for (const [, code = '', inside = ''] of errors.matchAll(/([A-Z_]+) \(([^)]*)\)/g)) {
        const reasons = inside.split(/[;,]/).map((part) => part.trim().split(':', 1)[0] ?? '')
        const known = reasons.filter((reason) => Object.hasOwn(REASONS, reason))
        if (known.length === 0) throw new Error(`${rpc}: ${code} names no reason`)
        for (const reason of known) named.set(`${service}.${rpc} ${reason}`, code)
      }
    }
  }
  return named
}

/** The call for an error that most rpcs have: nothing of what is required, or what goes well but for the name. */
function usual(row: string): Make {
  const [name = '', reason] = row.split(' ')
  if (reason === 'validation_failed') return () => ({ pageSize: 10_001 })
  if (reason !== 'not_found') throw new Error(`${row} needs a row`)
  return async (scene, fresh) => {
    const request = await HAPPY[name]!(scene, fresh)
    const fields = Object.keys(request)
    const id = fields.find((field) => /(?<!business|request)Id$/.test(field))
    const named = id ?? (fields.includes('reference') ? 'reference' : 'businessId')
    return { ...request, [named]: 'unknown' }
  }
}

/** A call for each error that the usual one does not get. */
export const ROWS: Readonly<Record<string, Make>> = {
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
  'AccountService.ListAccounts validation_failed': invalid({ pageSize: 201, status: 99 }),
  'AdminService.IssueToken validation_failed': invalid({
    name: 'x',
    scopes: ['read'],
    businessIds: ['biz_nobody'],
  }),
  'AdminService.VerifyAudit validation_failed': invalid({ from: 'garbage' }),
  'AdminService.ListAuditEntries validation_failed': invalid({ pageToken: 'garbage' }),
  'BusinessService.CreateBusiness validation_failed': invalid({ alias: 'a/b' }),
  'BusinessService.UpdateBusiness validation_failed': ({ businessId }) => ({
    businessId,
    name: '',
    alias: 'a/b',
  }),
  'BusinessService.IssueKey validation_failed': invalid({ expiresAt: { seconds: 1n } }),
  'BusinessService.ImportKey validation_failed': invalid({ secretKey: 'too short' }),
  'BusinessService.ImportKey duplicate_key': async ({ service, businessId, otherBusinessId }) => {
    const secretKey = importedText('of another')
    await service.client(BusinessService).importKey({ businessId: otherBusinessId, secretKey })
    return { businessId, secretKey }
  },
  'BusinessService.UpdateKey validation_failed': ({ revokedKeyId }) => ({
    keyId: revokedKeyId,
    allowedCidrs: ['203.0.113.0/24', '203.0.113.0/33', 'example.com'],
  }),
  'BusinessService.UpdateKey key_inactive': ({ revokedKeyId }) => ({ keyId: revokedKeyId }),
  'BusinessService.RotateKey validation_failed': ({ revokedKeyId }) => ({
    keyId: revokedKeyId,
    overlap: { seconds: 2_592_001n },
  }),
  'BusinessService.RotateKey key_inactive': ({ revokedKeyId }) => ({ keyId: revokedKeyId }),
  'BusinessService.ListApiRequests validation_failed': invalid({ statusClass: 3 }),
  'EventService.Subscribe validation_failed': invalid({ kinds: ['PAYMENT_NOTIFICATON'] }),
  'EventService.Subscribe invalid_cursor': invalid({ start: { case: 'cursor', value: 'garbage' } }),
  'EventService.Subscribe stale_cursor': invalid({
    start: { case: 'cursor', value: encodeCursor({ epoch: 999, position: 0n, tag: '' }) },
  }),
  'EventService.Subscribe expired_cursor': async ({ service }) => {
    const { durablePool } = service.database
    await durablePool.query('update event_retention set floor = 1')
    const { rows } = await durablePool.query('select epoch from sequencer')
    const cursor = encodeCursor({ epoch: rows[0].epoch, position: 0n, tag: '' })
    return { start: { case: 'cursor', value: cursor } }
  },
  'EventService.ListEvents validation_failed': invalid({ after: -1n, limit: 501 }),
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
  'TransactionService.ListTransactions validation_failed': ({ businessId }) => ({
    businessId,
    pageToken: 'garbage',
  }),
  'TransactionService.SummarizeTransactions validation_failed': invalid({ reference: 'R-1' }),
  'SessionService.ListSessions validation_failed': invalid({ pageToken: 'garbage' }),
  'SessionService.CreatePortalLink validation_failed': ({ businessId }) => ({
    businessId,
    scopes: ['admin'],
    ttl: { seconds: 59n },
  }),
  'OverviewService.Search validation_failed': invalid({ query: 'x'.repeat(255) }),
  'OverviewService.GetOverview validation_failed': invalid({ businessId: 'x'.repeat(61) }),
  'OverviewService.ListReviewItems validation_failed': invalid({ pageToken: 'garbage' }),
  ...BANK_ERRORS,
  ...MONEY_ERRORS,
  ...PAYOUT_ERRORS,
  ...WEBHOOK_ERRORS,
  ...THIRD_PARTY_ERRORS,
}

/** A call for each error that an rpc names. Only `unavailable` is provoked in another way. */
export const ERRORS: Readonly<Record<string, Make>> = Object.fromEntries(
  [...NAMED_ERRORS.keys()]
    .filter((row) => !row.endsWith(' unavailable'))
    .map((row) => [row, ROWS[row] ?? usual(row)]),
)

/** What only an instance with live banks answers, none of which can be reached. */
export const OF_LIVE_BANKS: ReadonlySet<string> = new Set([
  'SandboxService.SimulateTransfer not_sandbox',
  'AccountService.CloseAccount bank_unavailable',
  'PayoutService.ResolveAccountName bank_unavailable',
  'PayoutService.CreatePayout bank_unavailable',
  'PayoutService.RefundTransaction bank_unavailable',
  'PayoutService.RefundUnmatchedPayment bank_unavailable',
  'PayoutService.ReconcilePayouts bank_unavailable',
  'PayoutService.UpdatePayoutPolicy bank_unavailable',
  'ThirdPartyService.CloseVirtualAccount bank_unavailable',
  'ThirdPartyService.ResolveAccountName bank_unavailable',
  'ThirdPartyService.CreatePayout bank_unavailable',
  'ThirdPartyService.RefundTransaction bank_unavailable',
  'ThirdPartyService.RequeryTransaction requery_unsupported',
  'TransactionService.RecordPayment payment_unconfirmed',
  'TransactionService.RecordPayment bank_key_required',
  'TransactionService.RecordPayment bank_unavailable',
])
