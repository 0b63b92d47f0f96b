import { SettlementService } from '../../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { useMay, useRestricted } from '../../session/session.tsx'
import { useUrlState, useViewScope } from '../../session/view-scope.ts'
import { Page } from '../../ui/page.tsx'
import { BalanceFigures } from './balance-figures.tsx'
import { Calendar } from './calendar.tsx'
import { Holidays } from './holidays.tsx'
import { dayAt } from './lagos-calendar.ts'
import { LedgerVerification } from './ledger-verification.tsx'
import { Preview } from './preview.tsx'
import { RunSettlement } from './run-settlement.tsx'
import { SettlementList } from './settlement-list.tsx'
import { StatementDownload } from './statement-download.tsx'
import { SettlementTerms } from './terms.tsx'
import { useSettlementRefresh } from './use-settlement-refresh.ts'
import '../../styles/figures.css'
import '../../styles/settlement.css'

/** What is settled when: the calendar, the settlements, and, for one business, its balance and terms. */
export function SettlementPage() {
  const { businessId, live } = useViewScope()
  const [month, setMonth] = useUrlState('month', dayAt(Date.now()).slice(0, 7))
  const [day, setDay] = useUrlState('day')
  const may = useMay()
  const isRestricted = useRestricted()
  useSettlementRefresh()
  const show = (next: string) => {
    setDay('')
    setMonth(next)
  }
  return (
    <Page
      title="Settlement"
      actions={
        <>
          {businessId !== '' && <StatementDownload businessId={businessId} />}
          {may(SettlementService.method.settle) && (businessId !== '' || !isRestricted) && (
            // What was begun for one business or mode is not repeated for another.
            <RunSettlement key={`${businessId} ${live}`} businessId={businessId} />
          )}
        </>
      }
    >
      {businessId !== '' && <BalanceFigures businessId={businessId} />}
      <Calendar month={month} onMonth={show} day={day} onDay={setDay} />
      <SettlementList day={day} onAll={() => setDay('')} />
      <Preview />
      {businessId !== '' && <SettlementTerms businessId={businessId} />}
      {may(SettlementService.method.listHolidays) && <Holidays />}
      {may(SettlementService.method.verifyLedger) && <LedgerVerification />}
    </Page>
  )
}
