import { type ComponentType, lazy } from 'react'
import type { MethodNeeds } from '../session/method-needs.ts'
import type { IconName } from '../ui/icons.tsx'
import { RAIL_NEEDS } from './rail-needs.ts'

/** A page of the rail. */
interface RailPage {
  readonly path: string
  readonly title: string
  readonly icon: IconName
  /** The page is shown to a caller who has this. */
  readonly needs: MethodNeeds
  readonly component: ComponentType
}

/** Where the service serves the console. */
export const BASE = '/console'

/** A page is loaded when it is first opened; the one that the URL names at once, while the caller is looked up. */
function lazily(path: string, load: () => Promise<ComponentType>): ComponentType {
  const first = isAt(path) ? load() : undefined
  // The page shows its failure where it is opened.
  first?.catch(() => undefined)
  return lazy(async () => ({ default: await (first ?? load()) }))
}

/** Whether the URL fits the pattern of a path. */
function isAt(path: string): boolean {
  const parts = window.location.pathname.slice(BASE.length).split('/')
  const pattern = path.split('/')
  const fits = (part: string, index: number) => part.startsWith(':') || part === parts[index]
  return parts.length === pattern.length && pattern.every(fits)
}

/** The icon of a page has the name of its path. */
function rail(title: keyof typeof RAIL_NEEDS, load: () => Promise<ComponentType>): RailPage {
  const icon = title.toLowerCase() as IconName
  const path = icon === 'overview' ? '/' : `/${icon}`
  return { path, title, icon, needs: RAIL_NEEDS[title], component: lazily(path, load) }
}

const inner = (path: string, load: () => Promise<ComponentType>) =>
  [path, lazily(path, load)] as const

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
const requests = () => import('../pages/requests-page.tsx')
const businesses = () => import('../pages/businesses-page.tsx')
const access = () => import('../pages/access-page.tsx')
const health = () => import('../pages/health-page.tsx')

/** The pages in the order of the rail. */
export const RAIL: readonly RailPage[] = [
  rail('Overview', async () => (await overview()).OverviewPage),
  rail('Payments', async () => (await payments()).PaymentsPage),
  rail('Accounts', async () => (await accounts()).AccountsPage),
  rail('Events', async () => (await events()).EventsPage),
  rail('Webhooks', async () => (await webhooks()).WebhooksPage),
  rail('Review', async () => (await review()).ReviewPage),
  rail('Settlement', async () => (await settlement()).SettlementPage),
  rail('Reconciliation', async () => (await reconciliation()).ReconciliationPage),
  rail('Requests', async () => (await requests()).RequestsPage),
  rail('Businesses', async () => (await businesses()).BusinessesPage),
  rail('Access', async () => (await access()).AccessPage),
  rail('Health', async () => (await health()).HealthPage),
]

/** Pages that are reached from others: patterns of paths. */
export const INNER: readonly (readonly [path: string, component: ComponentType])[] = [
  inner('/payments/:id', async () => (await payment()).PaymentPage),
  inner('/accounts/:business/:reference', async () => (await account()).AccountPage),
  inner('/events/:id', async () => (await events()).EventPage),
  inner('/webhooks/deliveries/:id', async () => (await deliveries()).DeliveryPage),
  inner('/webhooks/:id', async () => (await endpoint()).EndpointPage),
  inner('/settlement/:id', async () => (await settlement()).SettlementDetails),
  inner('/businesses/:id', async () => (await businesses()).BusinessPage),
]
