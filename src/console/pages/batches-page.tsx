import { useQuery } from '@connectrpc/connect-query'
import { useEffect, useMemo } from 'react'
import { useParams } from 'wouter'
import {
  type PayoutBatch,
  PayoutBatchSchema,
  PayoutSchema,
  type RefusedItem,
  RefusedItemSchema,
} from '../../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutService } from '../../../gen/inflow/payout/v1/payout_service_pb.ts'
import type { Tone } from '../format/enums.ts'
import { count } from '../format/money.ts'
import { useRestricted } from '../session/session.tsx'
import { useShowObject, useViewScope } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { columnsOf, MessageFacts } from '../ui/columns.tsx'
import { List, Table, usePagedList } from '../ui/list.tsx'
import { Empty, Loaded, Page, Section } from '../ui/page.tsx'
import { BusinessLink, Clipped, Id, Status } from '../ui/values.tsx'
import { BatchSum, inColumns, UploadBatch } from './batch-upload.tsx'
import {
  PayoutStatusShown,
  payoutAmount,
  payoutsReadMs,
  Requester,
  useOwnName,
  usePayoutEvents,
} from './payout-words.tsx'

const METHODS = PayoutService.method

/** The batches of payouts of a business. */
export function BatchesPage() {
  const { businessId } = useViewScope()
  return (
    <Page title="Batches of payouts" actions={<UploadBatch />} isWide>
      {businessId === '' ? (
        <Empty title="Choose a business">Each batch pays out of the balance of one business.</Empty>
      ) : (
        <BatchList businessId={businessId} />
      )}
    </Page>
  )
}

function BatchList({ businessId }: { readonly businessId: string }) {
  const { live } = useViewScope()
  const request = { businessId, pageSize: 50 }
  const options = { staleTime: 0, refetchMs: readMs }
  const { rows: all, ...list } = usePagedList(METHODS.listBatches, 'batches', request, options)
  const rows = useMemo(() => all.filter((batch) => batch.live === live), [all, live])
  return (
    <List
      label="Batches"
      columns={COLUMNS}
      of={{ ...list, rows }}
      hrefOf={({ id }, href) => href(`/payouts/batches/${businessId}/${id}`)}
      empty={
        <Empty
          title={`No batches in ${live ? 'live' : 'test'} mode`}
          command="inflow payout import salaries.csv --reference salaries-11"
        >
          A batch requests up to 5,000 payouts at once, from a file.
        </Empty>
      }
    />
  )
}

const COLUMNS = columnsOf(PayoutBatchSchema, [
  ['Requested', 'createdAt'],
  ['Reference', ({ reference }) => <Clipped text={reference} />],
  ['Payouts', 'count'],
  ['Sum', 'sumMinor', 'number'],
  ['State', (batch) => <State batch={batch} />],
  ['By', ({ requestedBy }) => <Requester of={requestedBy} />, 'wide'],
])

const READ_MS = 3_000

/** When to read batches again: name enquiries and payouts progress without an event for each step. */
function readMs(batches: readonly PayoutBatch[]): number | false {
  return batches.some((batch) => batch.pendingCount > 0 || sendingOf(batch) > 0) ? READ_MS : false
}

/** How many payouts are being sent. */
function sendingOf(batch: PayoutBatch): number {
  const { pendingCount, refusedCount, approvalCount, paidCount, failedCount } = batch
  return batch.count - pendingCount - refusedCount - approvalCount - paidCount - failedCount
}

function stateOf(batch: PayoutBatch): readonly [Tone, string] {
  const { pendingCount, approvalCount, paidCount } = batch
  if (pendingCount > 0) return ['waiting', `Names pending: ${count(pendingCount)}`]
  if (approvalCount > 0) return ['waiting', `Await approval: ${count(approvalCount)}`]
  if (sendingOf(batch) > 0) return ['waiting', `Being sent: ${count(sendingOf(batch))}`]
  if (paidCount === batch.count) return ['good', 'All paid']
  return ['bad', `Paid: ${count(paidCount)} of ${count(batch.count)}`]
}

function State({ batch }: { readonly batch: PayoutBatch }) {
  const [tone, text] = stateOf(batch)
  return <Status tone={tone}>{text}</Status>
}

/** One batch: its progress, its approval as a whole, its payouts, and the refused items. */
export function BatchPage() {
  const { business = '', id = '' } = useParams()
  const read = useQuery(
    METHODS.getBatch,
    { businessId: business, batchId: id },
    { refetchInterval: ({ state }) => readMs(state.data?.batch ? [state.data.batch] : []) },
  )
  usePayoutEvents(({ batchId }) => batchId === id, read.refetch)
  const { batch, refused = [] } = read.data ?? {}
  useShowObject(batch)
  return (
    <Page
      title="Batch of payouts"
      isWide
      actions={batch ? <Decide batch={batch} /> : <Id text={id} charsMax={40} />}
    >
      <Loaded read={read} rows={8} />
      {batch && <BatchFacts batch={batch} />}
      {refused.length > 0 && <Refused refused={refused} />}
      {batch && <Payouts batch={batch} />}
    </Page>
  )
}

function BatchFacts({ batch }: { readonly batch: PayoutBatch }) {
  const own = useOwnName()
  const isPortal = useRestricted()
  const isOwn = batch.approvalCount > 0 && batch.requestedBy === own
  return (
    <>
      {isOwn && (
        <div className="verdict waiting">
          <p>You requested it: another person has to approve it.</p>
        </div>
      )}
      <div className="fact-columns">
        <BatchSum amountMinor={batch.sumMinor} payouts={batch.count} />
        <MessageFacts
          schema={PayoutBatchSchema}
          of={batch}
          facts={[
            ['State', (of) => <State batch={of} />],
            ['Paid', ({ paidCount }) => count(paidCount)],
            ['Not paid', ({ failedCount }) => failedCount > 0 && count(failedCount)],
            ['Refused', ({ refusedCount }) => refusedCount > 0 && count(refusedCount)],
            'reference',
            ['Requested', 'createdAt'],
            ['By', ({ requestedBy }) => <Requester of={requestedBy} />],
            ['Business', ({ businessId }) => !isPortal && <BusinessLink id={businessId} />],
            ['Mode', ({ live }) => (live ? 'Live' : 'Test')],
            ['Batch', 'id'],
          ]}
        />
      </div>
    </>
  )
}

/** Approves the whole batch after all name enquiries have ended, or rejects the whole batch. */
function Decide({ batch }: { readonly batch: PayoutBatch }) {
  const { id, businessId, approvalCount, approvalSumMinor, pendingCount, requestedBy } = batch
  const own = useOwnName()
  const sum = <BatchSum amountMinor={approvalSumMinor} payouts={approvalCount} />
  const shared = { request: { businessId, batchId: id }, target: id }
  return (
    <>
      <Action
        method={METHODS.approveBatch}
        label="Approve the batch"
        kind="primary"
        isOffered={approvalCount > 0 && pendingCount === 0 && requestedBy !== own}
        says={
          <>
            {sum}
            <p>They are sent as soon as a bank can pay them.</p>
          </>
        }
        fields={{ note: { rows: 2 } }}
        result={({ count: approved, sumInWords }) => (
          <p>
            {count(approved)} approved: {sumInWords}.
          </p>
        )}
        {...shared}
      />
      <Action
        method={METHODS.rejectBatch}
        label="Reject the batch"
        kind="danger"
        isOffered={approvalCount + pendingCount > 0}
        says={
          <>
            {sum}
            <p>They are not sent. The money is available again.</p>
            {pendingCount > 0 && <p>Items whose accounts no bank has named yet are refused.</p>}
          </>
        }
        reason="Why"
        {...shared}
      />
    </>
  )
}

const REFUSED_COLUMNS = columnsOf(RefusedItemSchema, [
  ['Item', ({ index }) => count(index + 1), 'number'],
  ['Reference', ({ reference }) => <Clipped text={reference} />],
  ['Why', ({ detail, reason }) => <span className="sentence">{inColumns(detail) || reason}</span>],
])

function Refused({ refused }: { readonly refused: readonly RefusedItem[] }) {
  return (
    <Section title="Refused: these have no payout">
      <Table
        label="Refused items"
        columns={REFUSED_COLUMNS}
        rows={refused}
        keyOf={({ index }) => `${index}`}
      />
    </Section>
  )
}

const PAYOUT_COLUMNS = columnsOf(PayoutSchema, [
  ['Reference', ({ reference }) => <Clipped text={reference} />],
  ['Amount', payoutAmount, 'number'],
  ['Status', (payout) => <PayoutStatusShown {...payout} />],
  ['Beneficiary', ({ beneficiary }) => <Clipped text={beneficiary?.accountName ?? ''} />],
  ['Account', ({ beneficiary }) => <code>{beneficiary?.accountNumber}</code>, 'wide'],
  ['Bank', ({ beneficiary }) => <Clipped text={beneficiary?.bankName ?? ''} />, 'wide'],
  ['Why', ({ detail, failureReason }) => <Clipped text={detail || failureReason} />, 'wide'],
])

function Payouts({ batch }: { readonly batch: PayoutBatch }) {
  const { id, businessId } = batch
  const options = { staleTime: 0, refetchMs: payoutsReadMs }
  const request = { batchId: id, businessId, pageSize: 100 }
  const list = usePagedList(METHODS.listPayouts, 'payouts', request, options)
  const { refetch } = list.pages
  // biome-ignore lint/correctness/useExhaustiveDependencies: another batch than before has other payouts
  useEffect(() => void refetch({ cancelRefetch: false }), [batch, refetch])
  return (
    <Section title="Payouts">
      <List
        label="Payouts of the batch"
        columns={PAYOUT_COLUMNS}
        of={list}
        hrefOf={({ id: payoutId }, href) => href(`/payouts/${payoutId}`)}
        isExported
        empty={<p className="soft">No row has a payout yet.</p>}
      />
    </Section>
  )
}
