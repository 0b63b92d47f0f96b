import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { createQueryOptions, useQuery, useTransport } from '@connectrpc/connect-query'
import { useQueries, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import {
  type Settlement,
  SettlementStatus,
} from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import {
  PreviewSettlementResponseSchema,
  SettlementService,
} from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { count, naira } from '../format/money.ts'
import { durationText } from '../format/time.ts'
import { useBusinessNames } from '../session/business-names.ts'
import { useViewScope } from '../session/view-scope.tsx'
import { Button } from '../ui/button.tsx'
import { columns } from '../ui/columns.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Tick } from '../ui/fields.tsx'
import { Table, usePagedList } from '../ui/list.tsx'
import { Facts, Failure, Loaded, Section } from '../ui/page.tsx'
import { useProgress } from '../ui/progress.ts'
import { PageLink, Time, useNow } from '../ui/values.tsx'

/** Settles due payments after a confirmation, and shows the progress. */
export function RunSettlement({
  businessId,
}: {
  /** Empty: every business that is due. */
  readonly businessId: string
}) {
  const [isOpen, setOpen] = useState(false)
  const [isForced, setForced] = useState(false)
  const { state, at, error, start, resume, reset } = useRun(businessId)
  const begin = () =>
    start({
      ...IDLE,
      requestId: `console-${crypto.randomUUID()}`,
      force: isForced && businessId !== '',
      startedMs: Date.now(),
    })
  const whose = businessId === '' ? 'of every business' : 'of this business'
  return (
    <>
      <Button
        kind="primary"
        onClick={() => {
          // A run that continues, or can be retried, is shown again.
          if (state === 'done') reset()
          setOpen(true)
        }}
      >
        Settle now
      </Button>
      <Dialog title="Settle now" isOpen={isOpen} onClose={() => setOpen(false)}>
        {state === 'idle' ? (
          <>
            <p>
              Makes the payments {whose} available that are {isForced ? 'received' : 'due'}, less
              their fees. It cannot be undone.
            </p>
            {businessId !== '' && (
              <Tick
                isOn={isForced}
                onChange={setForced}
                label="Also payments that are not due yet"
              />
            )}
            {businessId === '' ? (
              <p className="faint">The amounts of each business are under Preview.</p>
            ) : (
              <Before businessId={businessId} isForced={isForced} />
            )}
          </>
        ) : (
          <RunProgress run={at} />
        )}
        {error !== undefined && <Failure error={error} onRetry={resume} />}
        <div className="dialog-buttons">
          <Button onClick={() => setOpen(false)}>{state === 'idle' ? 'Cancel' : 'Close'}</Button>
          {state === 'idle' && (
            <Button kind="primary" onClick={begin}>
              Settle
            </Button>
          )}
        </div>
      </Dialog>
    </>
  )
}

function Before({ businessId, isForced }: { businessId: string; isForced: boolean }) {
  const { live } = useViewScope()
  const { previewSettlement, getBalance } = SettlementService.method
  const request = { businessId, test: !live }
  const read = useQuery(previewSettlement, { ...request, force: isForced })
  const { balance } = useQuery(getBalance, request).data ?? {}
  return (
    <Loaded read={read} rows={5}>
      {(preview) =>
        preview.transactionCount === 0n ? (
          <p>{isForced ? 'No payment is unsettled.' : 'No payment is due.'}</p>
        ) : (
          <>
            <Amounts {...preview} />
            {balance && (
              <Facts
                facts={[
                  ['Available now', naira(balance.availableMinor)],
                  ['Available then', naira(balance.availableMinor + preview.netMinor)],
                ]}
              />
            )}
          </>
        )
      }
    </Loaded>
  )
}

/** The parts of a gross amount that lead to the net amount. */
function Amounts(sums: Sums) {
  return (
    <Facts
      facts={[
        ['Payments', count(sums.transactionCount)],
        ['Gross', naira(sums.grossMinor)],
        ['Fees', naira(-sums.feesMinor)],
        ['Shares of others', sums.splitsMinor > 0n && naira(-sums.splitsMinor)],
        ['Net', <strong key="net">{naira(sums.netMinor)}</strong>],
      ]}
    />
  )
}

const SHOWN_MAX = 10

function RunProgress({ run }: { readonly run: Run }) {
  const { settlements, startedMs, endedMs } = run
  const isDone = endedMs !== undefined
  const now = useNow()
  const elapsedMs = Math.max(1, (endedMs ?? now) - startedMs)
  const sums = totalOf(settlements)
  const done = settlements.filter(({ status }) => status === SettlementStatus.COMPLETED).length
  const percent =
    settlements.reduce((sum, { percentDone }) => sum + percentDone, 0) /
    Math.max(1, settlements.length)
  return (
    <>
      <progress
        aria-label="Settled"
        max={100}
        {...((isDone || settlements.length > 0) && {
          value: isDone ? 100 : percent,
        })}
      />
      <p role="status">
        {isDone && settlements.length === 0 && 'Nothing was due.'}
        {isDone && settlements.length > 0 && 'Everything that was due is settled.'}
        {!isDone && 'Settling… It continues if you close this.'}
      </p>
      {settlements.length > 0 && <Amounts {...sums} />}
      <Facts
        facts={[
          ['Settlements', `${done} of ${settlements.length}`],
          [
            'Rate',
            `${count((sums.transactionCount * 1_000n) / BigInt(elapsedMs))} payments a second`,
          ],
          ['Took', durationText(elapsedMs)],
        ]}
      />
      <ul>
        {settlements.slice(0, SHOWN_MAX).map(({ id, percentDone }) => (
          <li key={id}>
            <PageLink to={`/settlement/${id}`}>{id}</PageLink> {percentDone} %
          </li>
        ))}
      </ul>
    </>
  )
}

/** A settlement request, which runs for as long as it needs. */
interface Run {
  readonly requestId: string
  readonly force: boolean
  readonly startedMs: number
  readonly endedMs: number | undefined
  readonly settlements: readonly Settlement[]
}

const IDLE: Run = { requestId: '', force: false, startedMs: 0, endedMs: undefined, settlements: [] }

/**
 * Repeats a call until everything is settled: a call returns within about 20 seconds, and its repeat reads the progress. If
 * a call fails, the settlement continues in the background, and a retry continues to read its progress.
 */
function useRun(businessId: string) {
  const queries = useQueryClient()
  const { live } = useViewScope()
  return useProgress(
    SettlementService,
    IDLE,
    async function* settle(client, { requestId, force }) {
      for (let isCompleted = false; !isCompleted; ) {
        const response = await client.settle({ businessId, requestId, force, test: !live })
        isCompleted = response.completed
        yield response
      }
      void queries.invalidateQueries()
    },
    (run, { settlements, completed }) => ({
      ...run,
      settlements,
      ...(completed && { endedMs: Date.now() }),
    }),
  )
}

/** The number of businesses in one step; each business is a call. */
const STEP = 20

/** A preview of the results of settling now: for the shown business, or for all businesses one after another. */
export function Preview() {
  const { businessId } = useViewScope()
  const [isForced, setForced] = useState(false)
  const [isShown, setShown] = useState(false)
  return (
    <Section
      title="Preview"
      actions={
        <Tick isOn={isForced} onChange={setForced} label="Also payments that are not due yet" />
      }
    >
      {businessId !== '' && <Previews businessIds={[businessId]} isForced={isForced} />}
      {businessId === '' && isShown && <AllBusinesses isForced={isForced} />}
      {businessId === '' && !isShown && (
        <Button onClick={() => setShown(true)}>Preview all businesses</Button>
      )}
    </Section>
  )
}

function AllBusinesses({ isForced }: { readonly isForced: boolean }) {
  const { rows, pages } = usePagedList(BusinessService.method.listBusinesses, 'businesses', {
    pageSize: STEP,
  })
  const ids = rows.map(({ id }) => id)
  return (
    <>
      {pages.error && <Failure error={pages.error} onRetry={() => void pages.refetch()} />}
      <Previews businessIds={ids} isForced={isForced} />
      {pages.hasNextPage && (
        <Button busy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
          Next {STEP} businesses
        </Button>
      )}
    </>
  )
}

function Previews({
  businessIds,
  isForced,
}: {
  readonly businessIds: readonly string[]
  readonly isForced: boolean
}) {
  const { live } = useViewScope()
  const transport = useTransport()
  const nameOf = useBusinessNames(businessIds)
  const read = useQueries({
    queries: businessIds.map((businessId) =>
      createQueryOptions(
        SettlementService.method.previewSettlement,
        { businessId, test: !live, force: isForced },
        { transport },
      ),
    ),
  })
  const failed = read.find(({ error }) => error)
  const previews = read.flatMap(({ data }, index): BusinessPreview[] =>
    data ? [{ ...data, businessId: businessIds[index] ?? '' }] : [],
  )
  const due = previews.filter(({ transactionCount }) => transactionCount > 0n)
  return (
    <>
      {failed && <Failure error={failed.error} onRetry={() => void failed.refetch()} />}
      {due.length > 0 && (
        <Table
          label="Preview"
          columns={previewColumns(nameOf)}
          rows={due}
          keyOf={({ businessId }) => businessId}
          total={due.length > 1 ? { ...totalOf(due), businessId: '' } : undefined}
        />
      )}
      <p className="faint" role="status">
        {previews.length < businessIds.length
          ? `${previews.length} of ${businessIds.length} businesses…`
          : nothingText(previews, due)}
      </p>
    </>
  )
}

function nothingText(
  previews: readonly BusinessPreview[],
  due: readonly BusinessPreview[],
): string {
  const rest = previews.length - due.length
  if (previews.length === 1) return rest === 1 ? 'Nothing would be settled now.' : ''
  return rest === 0 ? '' : `Nothing would be settled for ${rest} of ${previews.length} businesses.`
}

const SUMS = ['transactionCount', 'grossMinor', 'feesMinor', 'splitsMinor', 'netMinor'] as const

type Sums = Readonly<Record<(typeof SUMS)[number], bigint>>

/** The sum of several businesses has neither the id of one nor a time. */
interface BusinessPreview extends Sums {
  readonly businessId: string
  readonly cutOffAt?: Timestamp | undefined
}

function totalOf(all: readonly Sums[]): Sums {
  const total = (name: keyof Sums) => all.reduce((sum, each) => sum + each[name], 0n)
  return Object.fromEntries(SUMS.map((name) => [name, total(name)])) as Sums
}

function previewColumns(nameOf: (businessId: string) => string) {
  return columns<BusinessPreview>(
    [
      ['Business', ({ businessId }) => nameOf(businessId) || 'Together'],
      ['Recorded before', ({ cutOffAt }) => cutOffAt && <Time at={cutOffAt} />],
      ...SUMS,
    ],
    PreviewSettlementResponseSchema,
  )
}
