import type { DescMethod, DescService } from '@bufbuild/protobuf'
import type { Scope } from '../caller.ts'

/** Who may call a method: businesses with a secret key, or internal tokens with one of the scopes. */
export type Access = 'secret key' | readonly Scope[]

/** Every method of every service. `admin` opens all that any scope opens. */
const ACCESS: Readonly<Record<string, Access>> = {
  'inflow.thirdparty.v2.ThirdPartyService.GenerateVirtualAccount': 'secret key',
  'inflow.thirdparty.v2.ThirdPartyService.GetTransaction': 'secret key',
  'inflow.thirdparty.v2.ThirdPartyService.GetVirtualAccount': 'secret key',
  'inflow.thirdparty.v2.ThirdPartyService.ListTransactions': 'secret key',
  'inflow.thirdparty.v2.ThirdPartyService.ListEvents': 'secret key',
  'inflow.thirdparty.v2.ThirdPartyService.GetBalance': 'secret key',
  'inflow.account.v1.AccountService.CreateAccount': ['payments:write'],
  'inflow.account.v1.AccountService.GetAccount': ['read'],
  'inflow.account.v1.AccountService.ListAccounts': ['read'],
  'inflow.account.v1.AccountService.CloseAccount': ['payments:write'],
  'inflow.account.v1.AccountService.ResolveAccount': ['admin'],
  'inflow.transaction.v1.TransactionService.RecordPayment': ['payments:write'],
  'inflow.transaction.v1.TransactionService.RecordPayments': ['payments:write'],
  'inflow.transaction.v1.TransactionService.GetTransaction': ['read'],
  'inflow.transaction.v1.TransactionService.ListTransactions': ['read'],
  'inflow.transaction.v1.TransactionService.ReverseTransaction': ['payments:write'],
  'inflow.settlement.v1.SettlementService.Settle': ['admin'],
  'inflow.settlement.v1.SettlementService.PreviewSettlement': ['read'],
  'inflow.settlement.v1.SettlementService.ListSettlements': ['read'],
  'inflow.settlement.v1.SettlementService.GetBalance': ['read'],
  'inflow.settlement.v1.SettlementService.ListEntries': ['read'],
  'inflow.settlement.v1.SettlementService.GetSettlementTerms': ['read'],
  'inflow.settlement.v1.SettlementService.UpdateSettlementTerms': ['admin'],
  'inflow.settlement.v1.SettlementService.AddHoliday': ['admin'],
  'inflow.settlement.v1.SettlementService.RemoveHoliday': ['admin'],
  'inflow.settlement.v1.SettlementService.ListHolidays': ['read'],
  'inflow.settlement.v1.SettlementService.VerifyLedger': ['admin'],
  'inflow.event.v1.EventService.Subscribe': ['events:subscribe'],
  'inflow.event.v1.EventService.ListEvents': ['events:subscribe', 'read'],
  'inflow.event.v1.EventService.BumpEpoch': ['admin'],
  'inflow.webhook.v1.WebhookService.CreateEndpoint': ['admin'],
  'inflow.webhook.v1.WebhookService.UpdateEndpoint': ['admin'],
  'inflow.webhook.v1.WebhookService.ListEndpoints': ['admin', 'read'],
  'inflow.webhook.v1.WebhookService.DeleteEndpoint': ['admin'],
  'inflow.webhook.v1.WebhookService.RotateSecret': ['admin'],
  'inflow.webhook.v1.WebhookService.SendTestEvent': ['admin'],
  'inflow.webhook.v1.WebhookService.ListDeliveries': ['admin', 'read'],
  'inflow.webhook.v1.WebhookService.GetDelivery': ['admin', 'read'],
  'inflow.webhook.v1.WebhookService.Redeliver': ['admin'],
  'inflow.webhook.v1.WebhookService.Recover': ['admin'],
  'inflow.business.v1.BusinessService.CreateBusiness': ['admin'],
  'inflow.business.v1.BusinessService.GetBusiness': ['admin', 'read'],
  'inflow.business.v1.BusinessService.ListBusinesses': ['admin', 'read'],
  'inflow.business.v1.BusinessService.UpdateBusiness': ['admin'],
  'inflow.business.v1.BusinessService.IssueKey': ['admin'],
  'inflow.business.v1.BusinessService.UpdateKey': ['admin'],
  'inflow.business.v1.BusinessService.RotateKey': ['admin'],
  'inflow.business.v1.BusinessService.RevokeKey': ['admin'],
  'inflow.business.v1.BusinessService.ListKeys': ['admin', 'read'],
  'inflow.admin.v1.AdminService.IssueToken': ['admin'],
  'inflow.admin.v1.AdminService.RevokeToken': ['admin'],
  'inflow.admin.v1.AdminService.ListTokens': ['admin', 'read'],
  'inflow.admin.v1.AdminService.ListAuditEntries': ['admin', 'read'],
  'inflow.reconciliation.v1.ReconciliationService.ListUnmatchedPayments': ['admin', 'read'],
  'inflow.reconciliation.v1.ReconciliationService.AssignUnmatchedPayment': ['admin'],
  'inflow.reconciliation.v1.ReconciliationService.ReturnUnmatchedPayment': ['admin'],
  'inflow.reconciliation.v1.ReconciliationService.Reconcile': ['admin'],
  'inflow.reconciliation.v1.ReconciliationService.ListRecordedPayments': ['admin', 'read'],
  'inflow.sandbox.v1.SandboxService.SimulateTransfer': ['payments:write'],
}

/** @throws when the table has no row for the method: such a service does not start */
export function accessOf(service: DescService, method: DescMethod): Access {
  const name = `${service.typeName}.${method.name}`
  const access = ACCESS[name]
  if (access === undefined) throw new Error(`the access table has no row for ${name}`)
  return access
}

/** The same, remembered by method: it is on the path of every call. */
export function createAccessOf(): (method: DescMethod) => Access {
  const known = new Map<DescMethod, Access>()
  return (method) => {
    let access = known.get(method)
    if (access === undefined) {
      access = accessOf(method.parent, method)
      known.set(method, access)
    }
    return access
  }
}
