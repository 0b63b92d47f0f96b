import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { EventService } from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { ReviewKind } from '../../../gen/inflow/overview/v1/review_pb.ts'
import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { TransactionStatus } from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { CUSTOMER } from '../../support/opened-account.ts'
import { creation } from '../rest/rest.ts'
import { BANK_HAPPY } from './bank-rows.ts'
import { heldId, MONEY_HAPPY } from './money-rows.ts'
import { PAYOUT_HAPPY } from './payout-rows.ts'
import { importedText, type Make, newKey, pay, type Scene } from './scene.ts'
import { THIRD_PARTY_HAPPY } from './thirdparty-rows.ts'
import { WEBHOOK_HAPPY } from './webhook-rows.ts'

/** A payment of each scene that is pending: nothing more happens to it by itself. */
const pending = new WeakMap<Scene, Promise<string>>()

const recordPending = async (scene: Scene) =>
  (await pay(scene, 'overview-pending', { status: TransactionStatus.PENDING }))!.id

/** A call of each rpc that goes well. A new rpc needs a row. */
export const HAPPY: Readonly<Record<string, Make>> = {
  'AccountService.CreateAccount': ({ businessId }, fresh) => ({
    businessId,
    reference: fresh,
    bank: Bank.BANK_PALMPAY,
    idType: 1,
    idNumber: '12345678901',
    ...CUSTOMER,
  }),
  'AccountService.GetAccount': ({ businessId, reference }) => ({ businessId, reference }),
  'AccountService.ListAccounts': ({ businessId }) => ({ businessId, pageSize: 1 }),
  'AdminService.IssueToken': ({ businessId }, fresh) => ({
    name: fresh,
    scopes: ['read', 'events:subscribe'],
    businessIds: [businessId],
    expiresAt: timestampFromMs(Date.now() + 3_600_000),
  }),
  'AdminService.RevokeToken': ({ revokedTokenId }) => ({ tokenId: revokedTokenId }),
  'AdminService.ListTokens': () => ({ pageSize: 1 }),
  'AdminService.VerifyAudit': () => ({}),
  'AdminService.ListAuditEntries': ({ businessId }) => ({ businessId, oldestFirst: true }),
  'BusinessService.CreateBusiness': () => ({ name: 'Ọjà', alias: 'Oja' }),
  'BusinessService.GetBusiness': ({ businessId }) => ({ businessId }),
  'BusinessService.ListBusinesses': () => ({ pageSize: 1 }),
  'BusinessService.UpdateBusiness': ({ otherBusinessId }) => ({
    businessId: otherBusinessId,
    name: 'Ọjà',
    alias: 'Oja',
  }),
  'BusinessService.IssueKey': ({ otherBusinessId }) => ({
    businessId: otherBusinessId,
    live: false,
    allowedCidrs: ['203.0.113.0/24', '2001:DB8::1'],
  }),
  'BusinessService.ImportKey': ({ otherBusinessId }, fresh) => ({
    businessId: otherBusinessId,
    live: false,
    secretKey: importedText(fresh),
  }),
  'BusinessService.UpdateKey': async (scene) => ({
    keyId: await newKey(scene),
    allowedCidrs: ['203.0.113.7'],
  }),
  'BusinessService.RotateKey': async (scene) => ({ keyId: await newKey(scene) }),
  'BusinessService.RevokeKey': ({ revokedKeyId }) => ({ keyId: revokedKeyId }),
  'BusinessService.ListKeys': ({ businessId }) => ({ businessId }),
  'BusinessService.ListApiRequests': ({ businessId }) => ({ businessId, live: true }),
  'EventService.Subscribe': ({ businessId }) => ({
    start: { case: 'beginning', value: true },
    businessIds: [businessId],
  }),
  'EventService.ListEvents': ({ businessId }) => ({ businessId, after: 1n }),
  'EventService.GetEvent': async ({ service, businessId }) => {
    const { events } = await service.client(EventService).listEvents({ businessId, limit: 1 })
    return { eventId: events[0]!.id }
  },
  'EventService.BumpEpoch': () => ({}),
  'SandboxService.SimulateTransfer': ({ accountNumber }, fresh) => ({
    accountNumber,
    amountMinor: 100n,
    sessionId: fresh,
  }),
  'ThirdPartyService.GenerateVirtualAccount': (_scene, fresh) => creation({ reference: fresh }),
  'ThirdPartyService.GetTransaction': ({ sessionId }) => ({ sessionId }),
  'ThirdPartyService.GetVirtualAccount': ({ reference }) => ({ reference }),
  'ThirdPartyService.ListTransactions': () => ({ pageSize: 1 }),
  'ThirdPartyService.ListEvents': () => ({ after: 1n, limit: 1 }),
  'TransactionService.RecordPayment': ({ accountNumber }, fresh) => ({
    bank: Bank.BANK_9PSB,
    accountNumber,
    sessionId: fresh,
    amountMinor: 5n,
    payer: { name: 'BOLA ADE' },
  }),
  'TransactionService.RecordPayments': ({ accountNumber }, fresh) => ({
    payments: [
      { bank: Bank.BANK_9PSB, accountNumber, sessionId: fresh, amountMinor: 5n },
      { bank: Bank.BANK_9PSB, accountNumber, sessionId: fresh, amountMinor: -5n },
    ],
  }),
  'TransactionService.GetTransaction': ({ businessId, sessionId }) => ({ businessId, sessionId }),
  'TransactionService.ListTransactions': ({ businessId }) => ({ businessId, live: true }),
  'TransactionService.SummarizeTransactions': ({ businessId }) => ({ businessId, live: true }),
  'SessionService.GetCaller': () => ({}),
  'SessionService.CreateSignInCode': () => ({}),
  'SessionService.ListSessions': () => ({ activeOnly: true, pageSize: 1 }),
  'SessionService.RevokeSession': ({ revokedSessionId }) => ({ sessionId: revokedSessionId }),
  'SessionService.CreatePortalLink': ({ businessId }, fresh) => ({
    businessId,
    scopes: ['read', 'payments:write'],
    ttl: { seconds: 3_600n },
    description: fresh,
  }),
  'SessionService.ListPortalLinks': ({ businessId }) => ({ businessId, pageSize: 1 }),
  'SessionService.RevokePortalLink': async ({ service, businessId }) => {
    const { portalLink } = await service.client(SessionService).createPortalLink({ businessId })
    return { portalLinkId: portalLink!.id }
  },
  'OverviewService.GetTimeline': async (scene) => {
    const id = pending.get(scene) ?? recordPending(scene)
    pending.set(scene, id)
    return { transactionId: await id }
  },
  'OverviewService.Search': ({ sessionId }) => ({ query: sessionId }),
  'OverviewService.GetOverview': ({ otherBusinessId }) => ({ businessId: otherBusinessId }),
  'OverviewService.ListReviewItems': ({ businessId }) => ({ businessId, pageSize: 1 }),
  'OverviewService.UpdateReviewItem': async (scene, fresh) => {
    const { transactionId: itemId } = await heldId(scene, fresh)
    return { itemId, kind: ReviewKind.HELD_PAYMENT, assignee: 'Ada', note: 'asked' }
  },
  ...BANK_HAPPY,
  ...MONEY_HAPPY,
  ...PAYOUT_HAPPY,
  ...WEBHOOK_HAPPY,
  ...THIRD_PARTY_HAPPY,
}

/** How many messages of a stream the happy call waits for. */
export const TAKE: Readonly<Record<string, number>> = {
  'EventService.Subscribe': 3,
  'WebhookService.Rehearse': 2,
}
