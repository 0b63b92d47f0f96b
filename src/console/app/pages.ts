import type { DescMethod } from '@bufbuild/protobuf'
import { type ComponentType, lazy } from 'react'
import { EventService } from '../../../gen/browser/inflow/event/v1/event_service_pb.ts'
import { OverviewService } from '../../../gen/browser/inflow/overview/v1/overview_service_pb.ts'
import { TransactionService } from '../../../gen/browser/inflow/transaction/v1/transaction_service_pb.ts'
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
    path: '/',
    title: 'Overview',
    icon: 'overview',
    needs: OverviewService.method.getOverview,
    component: lazy(() =>
      import('../pages/overview/overview-page.tsx').then((m) => ({ default: m.OverviewPage })),
    ),
  },
  {
    path: '/payments',
    title: 'Payments',
    icon: 'payments',
    needs: TransactionService.method.listTransactions,
    component: lazy(() =>
      import('../pages/payments/payments-page.tsx').then((m) => ({ default: m.PaymentsPage })),
    ),
  },
  {
    path: '/events',
    title: 'Events',
    icon: 'events',
    needs: EventService.method.listEvents,
    component: lazy(() =>
      import('../pages/events/events-page.tsx').then((m) => ({ default: m.EventsPage })),
    ),
  },
]

/** Pages that are reached from others: patterns of paths. */
export const INNER: readonly (readonly [string, ComponentType])[] = [
  [
    '/payments/:id',
    lazy(() =>
      import('../pages/payment/payment-page.tsx').then((m) => ({ default: m.PaymentPage })),
    ),
  ],
  [
    '/events/:id',
    lazy(() => import('../pages/events/event-page.tsx').then((m) => ({ default: m.EventPage }))),
  ],
]
