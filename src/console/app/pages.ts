import type { DescMethod } from '@bufbuild/protobuf'
import { type ComponentType, lazy } from 'react'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { EventService } from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { ReconciliationService } from '../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import type { IconName } from '../ui/icons.tsx'

/** A page of the rail. */
interface RailPage {
  readonly path: string
  readonly title: string
  readonly icon: IconName
  /** The page is shown to a caller who may call this. */
  readonly needs: DescMethod
  readonly component: ComponentType
}

/** The pages in the order of the rail. */
export const RAIL: readonly RailPage[] = [
  {
    path: '/',
    title: 'Overview',
    icon: 'overview',
    needs: OverviewService.method.getOverview,
    component: page(
      () => import('../pages/overview-page.tsx'),
      (module) => module.OverviewPage,
    ),
  },
  {
    path: '/payments',
    title: 'Payments',
    icon: 'payments',
    needs: TransactionService.method.listTransactions,
    component: page(
      () => import('../pages/payments-page.tsx'),
      (module) => module.PaymentsPage,
    ),
  },
  {
    path: '/accounts',
    title: 'Accounts',
    icon: 'accounts',
    needs: AccountService.method.listAccounts,
    component: page(
      () => import('../pages/accounts-page.tsx'),
      (module) => module.AccountsPage,
    ),
  },
  {
    path: '/events',
    title: 'Events',
    icon: 'events',
    needs: EventService.method.subscribe,
    component: page(
      () => import('../pages/events-page.tsx'),
      (module) => module.EventsPage,
    ),
  },
  {
    path: '/webhooks',
    title: 'Webhooks',
    icon: 'webhooks',
    needs: WebhookService.method.listEndpoints,
    component: page(
      () => import('../pages/webhooks-page.tsx'),
      (module) => module.WebhooksPage,
    ),
  },
  {
    path: '/review',
    title: 'Review',
    icon: 'review',
    needs: OverviewService.method.listReviewItems,
    component: page(
      () => import('../pages/review-page.tsx'),
      (module) => module.ReviewPage,
    ),
  },
  {
    path: '/settlement',
    title: 'Settlement',
    icon: 'settlement',
    needs: SettlementService.method.getSettlementCalendar,
    component: page(
      () => import('../pages/settlement-page.tsx'),
      (module) => module.SettlementPage,
    ),
  },
  {
    path: '/reconciliation',
    title: 'Reconciliation',
    icon: 'reconciliation',
    needs: ReconciliationService.method.reconcile,
    component: page(
      () => import('../pages/reconciliation-page.tsx'),
      (module) => module.ReconciliationPage,
    ),
  },
  {
    path: '/businesses',
    title: 'Businesses',
    icon: 'businesses',
    needs: BusinessService.method.listBusinesses,
    component: page(
      () => import('../pages/businesses-page.tsx'),
      (module) => module.BusinessesPage,
    ),
  },
  {
    path: '/access',
    title: 'Access',
    icon: 'access',
    needs: AdminService.method.listAuditEntries,
    component: page(
      () => import('../pages/access-page.tsx'),
      (module) => module.AccessPage,
    ),
  },
  {
    path: '/health',
    title: 'Health',
    icon: 'health',
    needs: ReconciliationService.method.listReconciliationRuns,
    component: page(
      () => import('../pages/health-page.tsx'),
      (module) => module.HealthPage,
    ),
  },
]

/** Pages that are reached from others: patterns of paths. */
export const INNER: readonly (readonly [string, ComponentType])[] = [
  [
    '/payments/:id',
    page(
      () => import('../pages/payment-page.tsx'),
      (module) => module.PaymentPage,
    ),
  ],
  [
    '/accounts/:business/:reference',
    page(
      () => import('../pages/account-page.tsx'),
      (module) => module.AccountPage,
    ),
  ],
  [
    '/events/:id',
    page(
      () => import('../pages/events-page.tsx'),
      (module) => module.EventPage,
    ),
  ],
  [
    '/webhooks/deliveries/:id',
    page(
      () => import('../pages/delivery-page.tsx'),
      (module) => module.DeliveryPage,
    ),
  ],
  [
    '/webhooks/:id',
    page(
      () => import('../pages/endpoint-page.tsx'),
      (module) => module.EndpointPage,
    ),
  ],
  [
    '/settlement/:id',
    page(
      () => import('../pages/settlement-details.tsx'),
      (module) => module.SettlementDetails,
    ),
  ],
  [
    '/businesses/:id',
    page(
      () => import('../pages/business-page.tsx'),
      (module) => module.BusinessPage,
    ),
  ],
]

/** A page that is loaded when it is first opened. */
function page<Module>(
  load: () => Promise<Module>,
  pick: (module: Module) => ComponentType,
): ComponentType {
  return lazy(async () => ({ default: pick(await load()) }))
}
