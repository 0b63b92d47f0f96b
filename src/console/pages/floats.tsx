import { useQuery } from '@connectrpc/connect-query'
import { FloatSchema } from '../../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutService } from '../../../gen/inflow/payout/v1/payout_service_pb.ts'
import { bankName } from '../format/enums.ts'
import { useViewScope } from '../session/view-scope.tsx'
import { columnsOf } from '../ui/columns.tsx'
import { Table } from '../ui/list.tsx'
import { Loaded } from '../ui/page.tsx'
import { Dash, Money, Status, Time } from '../ui/values.tsx'

/** How often floats are read; the service reads the banks every 30 s. */
const REFRESH_MS = 30_000

/** The operator's accounts from which payouts are paid, one for each bank. */
export function Floats() {
  const { live } = useViewScope()
  const options = { refetchInterval: REFRESH_MS }
  const read = useQuery(PayoutService.method.getFloat, { live }, options)
  return (
    <Loaded read={read} rows={4}>
      {({ floats }) =>
        floats.length === 0 ? (
          <p className="soft">No bank that can pay is connected.</p>
        ) : (
          <Table label="Float" columns={COLUMNS} rows={floats} keyOf={({ bank }) => String(bank)} />
        )
      }
    </Loaded>
  )
}

const COLUMNS = columnsOf(FloatSchema, [
  ['Bank', ({ bank }) => <strong>{bankName(bank)}</strong>],
  [
    'State',
    ({ paused }) =>
      paused ? <Status tone="bad">Paused</Status> : <Status tone="good">Running</Status>,
  ],
  [
    'Float',
    ({ availableMinor }) =>
      availableMinor === undefined ? <Dash /> : <Money minor={availableMinor} />,
    'number',
  ],
  ['In progress', 'inProgressMinor', 'number'],
  [
    'Read',
    ({ readAt, error }) => (
      <>
        <Time at={readAt} />{' '}
        {error !== '' && (
          <span title={error}>
            <Status tone="bad">Not readable</Status>
          </span>
        )}
      </>
    ),
    'wide',
  ],
])
