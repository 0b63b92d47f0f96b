import type { DescMethod } from '@bufbuild/protobuf'
import { type ComponentType, lazy } from 'react'
import { OverviewService } from '../../../gen/browser/inflow/overview/v1/overview_service_pb.ts'
import { ReconciliationService } from '../../../gen/browser/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { SettlementService } from '../../../gen/browser/inflow/settlement/v1/settlement_service_pb.ts'
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
    path: '/review',
    title: 'Review',
    icon: 'review',
    needs: OverviewService.method.listReviewItems,
    component: lazy(() =>
      import('../pages/review/review-page.tsx').then((m) => ({ default: m.ReviewPage })),
    ),
  },
  {
    path: '/settlement',
    title: 'Settlement',
    icon: 'settlement',
    needs: SettlementService.method.getSettlementCalendar,
    component: lazy(() =>
      import('../pages/settlement/settlement-page.tsx').then((m) => ({
        default: m.SettlementPage,
      })),
    ),
  },
  {
    path: '/reconciliation',
    title: 'Reconciliation',
    icon: 'reconciliation',
    needs: ReconciliationService.method.listReconciliationRuns,
    component: lazy(() =>
      import('../pages/reconciliation/reconciliation-page.tsx').then((m) => ({
        default: m.ReconciliationPage,
      })),
    ),
  },
  {
    path: '/health',
    title: 'Health',
    icon: 'health',
    // GetOverview has the health for those only who may also call this.
    needs: ReconciliationService.method.listReconciliationRuns,
    component: lazy(() =>
      import('../pages/health/health-page.tsx').then((m) => ({ default: m.HealthPage })),
    ),
  },
]

/** Pages that are reached from others: patterns of paths. */
export const INNER: readonly (readonly [string, ComponentType])[] = [
  [
    '/settlement/:id',
    lazy(() =>
      import('../pages/settlement/settlement-details.tsx').then((m) => ({
        default: m.SettlementDetails,
      })),
    ),
  ],
]
