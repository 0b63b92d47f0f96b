import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { EventService } from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { PayoutService } from '../../../gen/inflow/payout/v1/payout_service_pb.ts'
import { ReconciliationService } from '../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { type MethodNeeds, needsOf } from '../session/method-needs.ts'

/**
 * The rights that a caller needs to open each page of the rail: those of the method that the page reads. The build computes
 * them, because the first page would otherwise load the contract of all pages.
 */
export const RAIL_NEEDS = {
  Overview: needsOf(OverviewService.method.getOverview),
  Payments: needsOf(TransactionService.method.listTransactions),
  Payouts: needsOf(PayoutService.method.listPayouts),
  Accounts: needsOf(AccountService.method.listAccounts),
  Events: needsOf(EventService.method.subscribe),
  Webhooks: needsOf(WebhookService.method.listEndpoints),
  Review: needsOf(OverviewService.method.listReviewItems),
  Settlement: needsOf(SettlementService.method.getSettlementCalendar),
  Reconciliation: needsOf(ReconciliationService.method.reconcile),
  Requests: needsOf(BusinessService.method.listApiRequests),
  Businesses: needsOf(BusinessService.method.listBusinesses),
  Access: needsOf(AdminService.method.listAuditEntries),
  Health: needsOf(ReconciliationService.method.listReconciliationRuns),
} satisfies Record<string, MethodNeeds>
