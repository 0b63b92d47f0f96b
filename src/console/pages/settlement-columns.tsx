import {
  type Settlement,
  SettlementStatus,
} from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import { count } from '../format/money.ts'
import type { Column } from '../ui/list.tsx'
import { Id, Money, Status, Time } from '../ui/values.tsx'

/** @param businessName names a business by its id; undefined: all rows are of one business */
export function settlementColumns(
  businessName: ((id: string) => string) | undefined,
): readonly Column<Settlement>[] {
  const columns: readonly Column<Settlement>[] = [
    { key: 'started', title: 'Started', render: ({ startedAt }) => <Time at={startedAt} /> },
    {
      key: 'business',
      title: 'Business',
      render: ({ businessId }) => businessName?.(businessId) ?? businessId,
    },
    { key: 'status', title: 'Status', render: (settlement) => <State settlement={settlement} /> },
    {
      key: 'payments',
      title: 'Payments',
      isNumber: true,
      render: ({ transactionCount }) => count(transactionCount),
    },
    {
      key: 'gross',
      title: 'Gross',
      isNumber: true,
      render: ({ grossMinor }) => <Money minor={grossMinor} />,
    },
    {
      key: 'fees',
      title: 'Fees',
      isNumber: true,
      render: ({ feesMinor }) => <Money minor={feesMinor} />,
    },
    {
      key: 'splits',
      title: 'Splits',
      isNumber: true,
      render: ({ splitsMinor }) => <Money minor={splitsMinor} />,
    },
    {
      key: 'net',
      title: 'Net',
      isNumber: true,
      render: ({ netMinor }) => <Money minor={netMinor} />,
    },
    { key: 'id', title: 'Settlement', render: ({ id }) => <Id text={id} /> },
  ]
  return businessName ? columns : columns.filter(({ key }) => key !== 'business')
}

/** Whether a settlement runs, and how far it is. */
export function State({ settlement }: { readonly settlement: Settlement }) {
  const { status, percentDone } = settlement
  if (status === SettlementStatus.COMPLETED) return <Status tone="good">Completed</Status>
  return <Status tone="waiting">{`Running, ${percentDone} %`}</Status>
}
