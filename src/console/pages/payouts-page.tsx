import {
  PayoutPurposeSchema,
  PayoutSchema,
  PayoutStatusSchema,
} from '../../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutService } from '../../../gen/inflow/payout/v1/payout_service_pb.ts'
import { bankName, enumChoices, enumValue } from '../format/enums.ts'
import { useArrivals } from '../session/live.tsx'
import { useMay, useOnlyBusiness } from '../session/session.tsx'
import { useUrlState, useViewScope } from '../session/view-scope.tsx'
import { columnsOf } from '../ui/columns.tsx'
import { ChoiceFilter, FilterBar, TextFilter, TimeFilter, useTimeRange } from '../ui/filters.tsx'
import { List, usePagedList } from '../ui/list.tsx'
import { Empty, Page } from '../ui/page.tsx'
import { Clipped, Id, PageLink } from '../ui/values.tsx'
import { RequestPayout } from './payout-forms.tsx'
import { PayoutStatusShown, payoutAmount, payoutsReadMs } from './payout-words.tsx'

const METHODS = PayoutService.method

/** The payouts of businesses, including refunds and settlements that are paid out. */
export function PayoutsPage() {
  const may = useMay()
  const isPortal = useOnlyBusiness() !== undefined
  return (
    <Page
      title="Payouts"
      isWide
      actions={
        <>
          {may(METHODS.getFloat) && (
            <PageLink to="/payouts/controls" className="button">
              Float, pauses and rules
            </PageLink>
          )}
          {isPortal && (
            <PageLink to="/payouts/rules" className="button">
              Rules
            </PageLink>
          )}
          <PageLink to="/payouts/batches" className="button">
            Batches
          </PageLink>
          <RequestPayout />
        </>
      }
    >
      <FilterBar>
        <ChoiceFilter name="status" label="Status" choices={enumChoices(PayoutStatusSchema)} />
        <ChoiceFilter name="purpose" label="Purpose" choices={enumChoices(PayoutPurposeSchema)} />
        <TimeFilter label="Requested" />
        <TextFilter name="account" label="Account number" placeholder="Ten digits" />
      </FilterBar>
      <PayoutList />
    </Page>
  )
}

function PayoutList() {
  const filter = useFilter()
  const { live, businessId, ...chosen } = filter
  // Payouts change all the time, so the list is read again whenever it is opened.
  const options = { staleTime: 0, refetchMs: payoutsReadMs }
  const list = usePagedList(METHODS.listPayouts, 'payouts', { ...filter, pageSize: 50 }, options)
  const arrivals = useArrivals(list.pages.refetch, ({ payload }) => payload.case === 'payout')
  const isFiltered = Object.values(chosen).some((value) => `${value}` !== '' && value !== 0)
  return (
    <>
      {arrivals}
      <div className="payment-list">
        <List
          label="Payouts"
          columns={COLUMNS}
          of={list}
          hrefOf={({ id }, href) => href(`/payouts/${id}`)}
          isExported
          empty={
            isFiltered ? (
              <Empty title="No payout matches">Change or clear a filter.</Empty>
            ) : (
              <Empty title={`No payouts in ${live ? 'live' : 'test'} mode yet`}>
                A payout pays an amount from the available balance of a business to an account at
                any bank.
              </Empty>
            )
          }
        />
      </div>
    </>
  )
}

/** The filter of the list, from the URL. Values that are not valid are left out. */
function useFilter() {
  const { live, businessId } = useViewScope()
  const [status] = useUrlState('status')
  const [purpose] = useUrlState('purpose')
  const [account] = useUrlState('account')
  const period = useTimeRange()
  const chosen = enumValue(PayoutStatusSchema, status)
  return {
    live,
    businessId,
    statuses: chosen === undefined ? [] : [chosen],
    purpose: enumValue(PayoutPurposeSchema, purpose) ?? 0,
    accountNumber: /^\d{10}$/.test(account) ? account : '',
    ...period,
  }
}

const COLUMNS = columnsOf(PayoutSchema, [
  ['Requested', 'createdAt'],
  ['Amount', payoutAmount, 'number'],
  ['Status', (payout) => <PayoutStatusShown {...payout} />],
  ['Beneficiary', ({ beneficiary }) => <Clipped text={beneficiary?.accountName ?? ''} />],
  ['Account', ({ beneficiary }) => <code>{beneficiary?.accountNumber}</code>, 'wide'],
  ['Bank', ({ beneficiary }) => <Clipped text={beneficiary?.bankName ?? ''} />, 'wide'],
  ['Purpose', 'purpose', 'wide'],
  ['Reference', ({ reference }) => <Id text={reference} />, 'wide'],
  ['Business', 'businessId', 'wide'],
  ['Fee', 'feeMinor', 'extra'],
  ['Duty', 'dutyMinor', 'extra'],
  ['Sent through', ({ bank }) => bankName(bank), 'extra'],
  ['Session', 'sessionId', 'extra'],
  ['Narration', ({ narration }) => <Clipped text={narration} />, 'extra'],
  ['Completed', 'completedAt', 'extra'],
  ['Id', 'id', 'extra'],
])
