import type { DescMethod } from '@bufbuild/protobuf'
import { accessOf } from './access.ts'

/** What a request can name whose business has to be looked up. */
export type Resource = 'key' | 'endpoint' | 'delivery' | 'event' | 'transaction'

/**
 * How a method is kept to the businesses that a token is restricted to:
 *
 * - `unrestricted`: it is about no business or about any, and is not for restricted tokens;
 * - `business`: the field names the business, and only one of the token's may be named;
 * - `businesses`: the same of a list, whose emptiness means all: all of the token's, then;
 * - `filtered`: the field may name the business; where it is empty, or there is none, the
 *   implementation lists what is of `restrictionOf(context)`;
 * - `owned`: each field names a resource; one of another business is as one that there is not.
 */
export type Reach =
  | { readonly by: 'unrestricted' }
  | { readonly by: 'business'; readonly field: string }
  | { readonly by: 'businesses'; readonly field: string }
  | { readonly by: 'filtered'; readonly field?: string }
  | { readonly by: 'owned'; readonly fields: Readonly<Record<string, Resource>> }

const UNRESTRICTED: Reach = { by: 'unrestricted' }
const BUSINESS: Reach = { by: 'business', field: 'businessId' }
const ENDPOINT: Reach = { by: 'owned', fields: { endpointId: 'endpoint' } }
const KEY: Reach = { by: 'owned', fields: { keyId: 'key' } }
const DELIVERY: Reach = { by: 'owned', fields: { deliveryId: 'delivery' } }

/** Every method that internal tokens may call. */
const REACH: Readonly<Record<string, Reach>> = {
  'inflow.account.v1.AccountService.CreateAccount': BUSINESS,
  'inflow.account.v1.AccountService.GetAccount': BUSINESS,
  'inflow.account.v1.AccountService.ListAccounts': { by: 'filtered', field: 'businessId' },
  'inflow.account.v1.AccountService.CloseAccount': BUSINESS,
  'inflow.account.v1.AccountService.ResolveAccount': BUSINESS,
  // A payment names an account number, and whoever may try numbers learns whose they are not.
  'inflow.transaction.v1.TransactionService.RecordPayment': UNRESTRICTED,
  'inflow.transaction.v1.TransactionService.RecordPayments': UNRESTRICTED,
  'inflow.transaction.v1.TransactionService.GetTransaction': BUSINESS,
  'inflow.transaction.v1.TransactionService.ListTransactions': BUSINESS,
  'inflow.transaction.v1.TransactionService.ReverseTransaction': {
    by: 'owned',
    fields: { transactionId: 'transaction' },
  },
  // An empty business means all of them, and what is due of others is not such a token's to settle.
  'inflow.settlement.v1.SettlementService.Settle': BUSINESS,
  'inflow.settlement.v1.SettlementService.PreviewSettlement': BUSINESS,
  'inflow.settlement.v1.SettlementService.ListSettlements': { by: 'filtered', field: 'businessId' },
  'inflow.settlement.v1.SettlementService.GetBalance': BUSINESS,
  'inflow.settlement.v1.SettlementService.ListEntries': BUSINESS,
  'inflow.settlement.v1.SettlementService.GetSettlementTerms': BUSINESS,
  'inflow.settlement.v1.SettlementService.UpdateSettlementTerms': BUSINESS,
  'inflow.settlement.v1.SettlementService.AddHoliday': UNRESTRICTED,
  'inflow.settlement.v1.SettlementService.RemoveHoliday': UNRESTRICTED,
  'inflow.settlement.v1.SettlementService.ListHolidays': UNRESTRICTED,
  'inflow.settlement.v1.SettlementService.VerifyLedger': UNRESTRICTED,
  'inflow.event.v1.EventService.Subscribe': { by: 'businesses', field: 'businessIds' },
  'inflow.event.v1.EventService.ListEvents': BUSINESS,
  'inflow.event.v1.EventService.BumpEpoch': UNRESTRICTED,
  'inflow.webhook.v1.WebhookService.CreateEndpoint': BUSINESS,
  'inflow.webhook.v1.WebhookService.UpdateEndpoint': ENDPOINT,
  'inflow.webhook.v1.WebhookService.ListEndpoints': BUSINESS,
  'inflow.webhook.v1.WebhookService.DeleteEndpoint': ENDPOINT,
  'inflow.webhook.v1.WebhookService.RotateSecret': ENDPOINT,
  'inflow.webhook.v1.WebhookService.SendTestEvent': ENDPOINT,
  'inflow.webhook.v1.WebhookService.ListDeliveries': {
    by: 'owned',
    fields: { endpointId: 'endpoint', eventId: 'event' },
  },
  'inflow.webhook.v1.WebhookService.GetDelivery': DELIVERY,
  'inflow.webhook.v1.WebhookService.Redeliver': DELIVERY,
  'inflow.webhook.v1.WebhookService.Recover': ENDPOINT,
  'inflow.business.v1.BusinessService.CreateBusiness': UNRESTRICTED,
  'inflow.business.v1.BusinessService.GetBusiness': BUSINESS,
  'inflow.business.v1.BusinessService.UpdateBusiness': BUSINESS,
  'inflow.business.v1.BusinessService.ListBusinesses': { by: 'filtered' },
  'inflow.business.v1.BusinessService.IssueKey': BUSINESS,
  'inflow.business.v1.BusinessService.UpdateKey': KEY,
  'inflow.business.v1.BusinessService.RotateKey': KEY,
  'inflow.business.v1.BusinessService.RevokeKey': KEY,
  'inflow.business.v1.BusinessService.ListKeys': BUSINESS,
  // What is nobody's yet is of no business.
  'inflow.reconciliation.v1.ReconciliationService.ListUnmatchedPayments': UNRESTRICTED,
  'inflow.reconciliation.v1.ReconciliationService.Reconcile': UNRESTRICTED,
  'inflow.reconciliation.v1.ReconciliationService.ListRecordedPayments': UNRESTRICTED,
  'inflow.reconciliation.v1.ReconciliationService.AssignUnmatchedPayment': UNRESTRICTED,
  'inflow.reconciliation.v1.ReconciliationService.ReturnUnmatchedPayment': UNRESTRICTED,
  'inflow.admin.v1.AdminService.IssueToken': UNRESTRICTED,
  'inflow.admin.v1.AdminService.RevokeToken': UNRESTRICTED,
  'inflow.admin.v1.AdminService.ListTokens': UNRESTRICTED,
  'inflow.admin.v1.AdminService.ListAuditEntries': { by: 'filtered', field: 'businessId' },
  'inflow.sandbox.v1.SandboxService.SimulateTransfer': UNRESTRICTED,
}

/** @throws when the table has no row for the method */
export function reachOf(method: DescMethod): Reach {
  const name = `${method.parent.typeName}.${method.name}`
  const reach = REACH[name]
  if (reach === undefined) throw new Error(`the table of reaches has no row for ${name}`)
  return reach
}

/**
 * Looks every method up in both tables, so that a service with one that is missing does not start.
 *
 * @throws when a row is missing, or names a field that the request does not have
 */
export function requireRows(methods: readonly DescMethod[]): void {
  for (const method of methods) {
    if (accessOf(method.parent, method) === 'secret key') continue
    const reach = reachOf(method)
    for (const name of fieldsOf(reach)) {
      const field = method.input.fields.find(({ localName }) => localName === name)
      const kind = reach.by === 'businesses' ? 'list' : 'scalar'
      if (field?.fieldKind !== kind) {
        throw new Error(
          `${method.input.typeName} has no field ${name} to keep tokens to businesses`,
        )
      }
    }
  }
}

function fieldsOf(reach: Reach): readonly string[] {
  if (reach.by === 'owned') return Object.keys(reach.fields)
  return 'field' in reach && reach.field !== undefined ? [reach.field] : []
}
