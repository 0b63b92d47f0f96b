import type { ComponentType } from 'react'
import type { IconName } from '../ui/icons.tsx'
import { RAIL_NEEDS } from './rail-needs.ts'

/** The path under which the service serves the console. */
export const BASE = '/console'

export const SIGN_IN = '/sign-in'

/** The path of the page that was opened first, within the console. */
export const OPENED_PATH = window.location.pathname.slice(BASE.length) || '/'

export interface LoadedPage {
  readonly load: () => Promise<ComponentType>
  /** Undefined: the page has not loaded yet. */
  component: ComponentType | undefined
}

/** The page of the URL. It loads at the same time as the console itself; undefined: no page has this path. */
export let openedPage: Promise<unknown> | undefined

function page(path: string, load: () => Promise<ComponentType>): LoadedPage {
  if (!isAt(path)) return { load, component: undefined }
  const loading = load()
  const opened: LoadedPage = { load: () => loading, component: undefined }
  // The error is shown when the page is opened.
  openedPage = loading.then((component) => (opened.component = component)).catch(() => undefined)
  return opened
}

/** Whether the path of the opened page matches a pattern. */
function isAt(path: string): boolean {
  const parts = OPENED_PATH.split('/')
  const pattern = path.split('/')
  const fits = (part: string, index: number) => part.startsWith(':') || part === parts[index]
  return parts.length === pattern.length && pattern.every(fits)
}

/** Defines a page of the rail, for callers with the required rights. Its icon has the name of its path. */
function rail(title: keyof typeof RAIL_NEEDS, load: () => Promise<ComponentType>) {
  const icon = title.toLowerCase() as IconName
  const path = icon === 'overview' ? '/' : `/${icon}`
  return { path, title, icon, needs: RAIL_NEEDS[title], page: page(path, load) }
}

const inner = (path: string, load: () => Promise<ComponentType>) =>
  [path, page(path, load)] as const

/** The pages in the order of the rail. */
export const RAIL = [
  rail('Overview', async () => (await import('../pages/overview-page.tsx')).OverviewPage),
  rail('Payments', async () => (await import('../pages/payments-page.tsx')).PaymentsPage),
  rail('Payouts', async () => (await import('../pages/payouts-page.tsx')).PayoutsPage),
  rail('Accounts', async () => (await import('../pages/accounts-page.tsx')).AccountsPage),
  rail('Events', async () => (await import('../pages/events-page.tsx')).EventsPage),
  rail('Webhooks', async () => (await import('../pages/webhooks-page.tsx')).WebhooksPage),
  rail('Review', async () => (await import('../pages/review-page.tsx')).ReviewPage),
  rail('Settlement', async () => (await import('../pages/settlement-page.tsx')).SettlementPage),
  rail(
    'Reconciliation',
    async () => (await import('../pages/reconciliation-page.tsx')).ReconciliationPage,
  ),
  rail('Requests', async () => (await import('../pages/requests-page.tsx')).RequestsPage),
  rail('Businesses', async () => (await import('../pages/businesses-page.tsx')).BusinessesPage),
  rail('Access', async () => (await import('../pages/access-page.tsx')).AccessPage),
  rail('Health', async () => (await import('../pages/health-page.tsx')).HealthPage),
]

/** Pages that other pages link to, with the patterns of their paths. */
export const INNER = [
  inner('/payments/:id', async () => (await import('../pages/payment-page.tsx')).PaymentPage),
  inner(
    '/payouts/controls',
    async () => (await import('../pages/payout-controls-page.tsx')).PayoutControlsPage,
  ),
  inner('/payouts/rules', async () => (await import('../pages/payout-rules.tsx')).PayoutRulesPage),
  inner('/payouts/batches', async () => (await import('../pages/batches-page.tsx')).BatchesPage),
  inner(
    '/payouts/batches/:business/:id',
    async () => (await import('../pages/batches-page.tsx')).BatchPage,
  ),
  inner('/payouts/:id', async () => (await import('../pages/payout-page.tsx')).PayoutPage),
  inner(
    '/accounts/customer/:business',
    async () => (await import('../pages/customer-page.tsx')).CustomerPage,
  ),
  inner(
    '/accounts/:business/:reference',
    async () => (await import('../pages/account-page.tsx')).AccountPage,
  ),
  inner('/events/:id', async () => (await import('../pages/events-page.tsx')).EventPage),
  inner(
    '/webhooks/deliveries/:id',
    async () => (await import('../pages/deliveries.tsx')).DeliveryPage,
  ),
  inner('/webhooks/:id', async () => (await import('../pages/endpoint-page.tsx')).EndpointPage),
  inner(
    '/settlement/:id',
    async () => (await import('../pages/settlement-page.tsx')).SettlementDetails,
  ),
  inner('/businesses/:id', async () => (await import('../pages/businesses-page.tsx')).BusinessPage),
]
