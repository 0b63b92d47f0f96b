import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { EventService } from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import type { KeyScope, Scope } from '../../../src/auth/caller.ts'
import { creation } from '../rest/rest.ts'
import { BANK_HAPPY } from './bank-rows.ts'
import { HELD_HAPPY } from './held-rows.ts'
import { OVERVIEW_HAPPY } from './overview-rows.ts'
import { CUSTOMER, importedText, type Make, newKey } from './scene.ts'
import { SESSION_HAPPY } from './session-rows.ts'
import { SETTLEMENT_HAPPY } from './settlement-rows.ts'
import { THIRD_PARTY_HAPPY } from './thirdparty-rows.ts'
import { WEBHOOK_HAPPY } from './webhook-rows.ts'

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
    test: true,
    allowedCidrs: ['203.0.113.0/24', '2001:DB8::1'],
  }),
  'BusinessService.ImportKey': ({ otherBusinessId }, fresh) => ({
    businessId: otherBusinessId,
    test: true,
    secretKey: importedText(fresh),
  }),
  'BusinessService.UpdateKey': async (scene) => ({
    keyId: await newKey(scene),
    allowedCidrs: ['203.0.113.7'],
  }),
  'BusinessService.RotateKey': async (scene) => ({ keyId: await newKey(scene) }),
  'BusinessService.RevokeKey': ({ revokedKeyId }) => ({ keyId: revokedKeyId }),
  'BusinessService.ListKeys': ({ businessId }) => ({ businessId }),
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
  ...BANK_HAPPY,
  ...HELD_HAPPY,
  ...OVERVIEW_HAPPY,
  ...SESSION_HAPPY,
  ...SETTLEMENT_HAPPY,
  ...WEBHOOK_HAPPY,
  ...THIRD_PARTY_HAPPY,
}

/** How many messages of a stream the happy call waits for. */
export const TAKE: Readonly<Record<string, number>> = {
  'EventService.Subscribe': 3,
  'WebhookService.Rehearse': 2,
}

/** The methods of each scope. A change of a policy in the contract has to be confirmed here. */
export const SCOPE_SERVICES: Readonly<Record<Scope, RegExp>> = {
  admin: /./,
  'payments:write':
    /^(AccountService\.(CreateAccount|CloseAccount)|TransactionService\.RecordPayments?|HeldPaymentService\.(Accept|Return)Payment|SandboxService\.SimulateTransfer|SessionService\.(GetCaller|CreateSignInCode))$/,
  'payments:reverse':
    /^(TransactionService\.ReverseTransaction|HeldPaymentService\.CompleteReturn|SessionService\.(GetCaller|CreateSignInCode))$/,
  'splits:write':
    /^(AccountService\.SetAccountSplit|SessionService\.(GetCaller|CreateSignInCode))$/,
  read: /^(\w+\.(Get|List|Preview)\w+|OverviewService\.Search|AdminService\.VerifyAudit|SessionService\.CreateSignInCode)$/,
  'events:subscribe':
    /^(EventService\.(Subscribe|ListEvents|GetEvent)|WebhookService\.ListEventKinds|SessionService\.(GetCaller|CreateSignInCode))$/,
}

/** The methods of each scope of a key, which have no other. */
export const KEY_SCOPE_METHODS: Readonly<Record<KeyScope, RegExp>> = {
  'accounts:read': /^(GetVirtualAccount|ListVirtualAccounts)$/,
  'accounts:create': /^GenerateVirtualAccount$/,
  'accounts:write': /^(Update|Upgrade|Close)VirtualAccount$/,
  'payments:read': /^(GetTransaction|ListTransactions|ListHeldPayments)$/,
  'payments:decide': /^(Accept|Return)Payment$/,
  'payments:requery': /^RequeryTransaction$/,
  'payments:simulate': /^SimulatePayment$/,
  'events:read': /^ListEvents$/,
  'balances:read': /^(GetBalance|ListSettlements|GetStatement)$/,
  'webhooks:read': /^List(Webhooks|Deliveries)$/,
  'webhooks:write': /^((Create|Update|Delete|Test)Webhook|Redeliver|SkipDelivery)$/,
}

/** What a key without scopes may call: it must never grow by itself. Who opens one-time accounts decides on their payments. */
export const UNSCOPED_METHODS =
  /^(GenerateVirtualAccount|GetTransaction|GetVirtualAccount|UpgradeVirtualAccount|ListTransactions|ListHeldPayments|AcceptPayment|ReturnPayment|ListEvents|GetBalance)$/
