import type { DescMethod } from '@bufbuild/protobuf'
import { type ComponentType, lazy } from 'react'
import { AccountService } from '../../../gen/browser/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../../gen/browser/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../../gen/browser/inflow/business/v1/business_service_pb.ts'
import { WebhookService } from '../../../gen/browser/inflow/webhook/v1/webhook_service_pb.ts'
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

/** The pages in the order of the rail. Each is loaded when it is first opened. */
export const RAIL: readonly RailPage[] = [
  {
    path: '/accounts',
    title: 'Accounts',
    icon: 'accounts',
    needs: AccountService.method.listAccounts,
    component: lazy(() =>
      import('../pages/accounts/accounts-page.tsx').then((m) => ({ default: m.AccountsPage })),
    ),
  },
  {
    path: '/webhooks',
    title: 'Webhooks',
    icon: 'webhooks',
    needs: WebhookService.method.listEndpoints,
    component: lazy(() =>
      import('../pages/webhooks/webhooks-page.tsx').then((m) => ({ default: m.WebhooksPage })),
    ),
  },
  {
    path: '/businesses',
    title: 'Businesses',
    icon: 'businesses',
    needs: BusinessService.method.listBusinesses,
    component: lazy(() =>
      import('../pages/businesses/businesses-page.tsx').then((m) => ({
        default: m.BusinessesPage,
      })),
    ),
  },
  {
    path: '/access',
    title: 'Access',
    icon: 'access',
    needs: AdminService.method.listAuditEntries,
    component: lazy(() =>
      import('../pages/access/access-page.tsx').then((m) => ({ default: m.AccessPage })),
    ),
  },
]

/** Pages that are reached from others: patterns of paths. */
export const INNER: readonly (readonly [string, ComponentType])[] = [
  [
    '/businesses/:id',
    lazy(() =>
      import('../pages/businesses/business-page.tsx').then((m) => ({ default: m.BusinessPage })),
    ),
  ],
  [
    '/accounts/:business/:reference',
    lazy(() =>
      import('../pages/accounts/account-page.tsx').then((m) => ({ default: m.AccountPage })),
    ),
  ],
  [
    '/webhooks/deliveries/:id',
    lazy(() =>
      import('../pages/webhooks/delivery-page.tsx').then((m) => ({ default: m.DeliveryPage })),
    ),
  ],
  [
    '/webhooks/:id',
    lazy(() =>
      import('../pages/webhooks/endpoint-page.tsx').then((m) => ({ default: m.EndpointPage })),
    ),
  ],
]
