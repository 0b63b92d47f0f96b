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

/** A page is loaded when it is first opened. */
const lazily = (load: () => Promise<ComponentType>): ComponentType =>
  lazy(async () => ({ default: await load() }))

/** The icon of a page has the name of its path. */
function rail(title: string, needs: DescMethod, load: () => Promise<ComponentType>): RailPage {
  const icon = title.toLowerCase() as IconName
  const path = icon === 'overview' ? '/' : `/${icon}`
  return { path, title, icon, needs, component: lazily(load) }
}

const overview = () => import('../pages/overview-page.tsx')
const payments = () => import('../pages/payments-page.tsx')
const payment = () => import('../pages/payment-page.tsx')
const accounts = () => import('../pages/accounts-page.tsx')
const account = () => import('../pages/account-page.tsx')
const events = () => import('../pages/events-page.tsx')
const webhooks = () => import('../pages/webhooks-page.tsx')
const endpoint = () => import('../pages/endpoint-page.tsx')
const deliveries = () => import('../pages/deliveries.tsx')
const review = () => import('../pages/review-page.tsx')
const settlement = () => import('../pages/settlement-page.tsx')
const reconciliation = () => import('../pages/reconciliation-page.tsx')
const businesses = () => import('../pages/businesses-page.tsx')
const access = () => import('../pages/access-page.tsx')
const health = () => import('../pages/health-page.tsx')

const { getOverview, listReviewItems } = OverviewService.method
const { reconcile, listReconciliationRuns } = ReconciliationService.method

/** The pages in the order of the rail. */
// biome-ignore format: a table
export const RAIL: readonly RailPage[] = [
  rail('Overview', getOverview, async () => (await overview()).OverviewPage),
  rail('Payments', TransactionService.method.listTransactions, async () => (await payments()).PaymentsPage),
  rail('Accounts', AccountService.method.listAccounts, async () => (await accounts()).AccountsPage),
  rail('Events', EventService.method.subscribe, async () => (await events()).EventsPage),
  rail('Webhooks', WebhookService.method.listEndpoints, async () => (await webhooks()).WebhooksPage),
  rail('Review', listReviewItems, async () => (await review()).ReviewPage),
  rail('Settlement', SettlementService.method.getSettlementCalendar, async () => (await settlement()).SettlementPage),
  rail('Reconciliation', reconcile, async () => (await reconciliation()).ReconciliationPage),
  rail('Businesses', BusinessService.method.listBusinesses, async () => (await businesses()).BusinessesPage),
  rail('Access', AdminService.method.listAuditEntries, async () => (await access()).AccessPage),
  rail('Health', listReconciliationRuns, async () => (await health()).HealthPage),
]

/** Pages that are reached from others: patterns of paths. */
export const INNER: readonly (readonly [string, ComponentType])[] = [
  ['/payments/:id', lazily(async () => (await payment()).PaymentPage)],
  ['/accounts/:business/:reference', lazily(async () => (await account()).AccountPage)],
  ['/events/:id', lazily(async () => (await events()).EventPage)],
  ['/webhooks/deliveries/:id', lazily(async () => (await deliveries()).DeliveryPage)],
  ['/webhooks/:id', lazily(async () => (await endpoint()).EndpointPage)],
  ['/settlement/:id', lazily(async () => (await settlement()).SettlementDetails)],
  ['/businesses/:id', lazily(async () => (await businesses()).BusinessPage)],
]
