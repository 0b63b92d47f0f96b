import { createQueryOptions, useTransport } from '@connectrpc/connect-query'
import { useQueries } from '@tanstack/react-query'
import { useState } from 'react'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import {
  type PreviewSettlementResponse,
  SettlementService,
} from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { count } from '../format/money.ts'
import { useBusinessNames } from '../session/business-names.ts'
import { useViewScope } from '../session/view-scope.tsx'
import { Button } from '../ui/button.tsx'
import { usePagedList } from '../ui/list.tsx'
import { Failure, Section } from '../ui/page.tsx'
import { Money, Time } from '../ui/values.tsx'

/** How many businesses one step asks for: each is a call. */
const STEP = 20

/** What settling now would give: for the business that the pages show, or for one after another. */
export function Preview() {
  const { businessId } = useViewScope()
  const [isForced, setForced] = useState(false)
  const [isShown, setShown] = useState(false)
  return (
    <Section
      title="Preview"
      actions={
        <label className="choice">
          <input
            type="checkbox"
            checked={isForced}
            onChange={(event) => setForced(event.target.checked)}
          />{' '}
          Also what is not due yet
        </label>
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
    data ? [{ businessId: businessIds[index] ?? '', preview: data }] : [],
  )
  const due = previews.filter(({ preview }) => preview.transactionCount > 0n)
  return (
    <>
      {failed && <Failure error={failed.error} onRetry={() => void failed.refetch()} />}
      <PreviewTable previews={due} nameOf={nameOf} />
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

/** What a settlement of a business would be. */
interface BusinessPreview {
  readonly businessId: string
  readonly preview: PreviewSettlementResponse
}

const SUMS = ['grossMinor', 'feesMinor', 'splitsMinor', 'netMinor'] as const

/** Previews of settlements, and their sums if there are several. */
function PreviewTable({
  previews,
  nameOf,
}: {
  readonly previews: readonly BusinessPreview[]
  readonly nameOf: (businessId: string) => string
}) {
  if (previews.length === 0) return null
  return (
    <div className="table-frame scrolls">
      <table className="table" aria-label="Preview">
        <thead>
          <tr>
            <th scope="col">Business</th>
            <th scope="col">Recorded before</th>
            {['Payments', 'Gross', 'Fees', 'Splits', 'Net'].map((title) => (
              <th key={title} scope="col" className="number">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {previews.map(({ businessId, preview }) => (
            <tr key={businessId}>
              <td>{nameOf(businessId)}</td>
              <td>
                <Time at={preview.cutOffAt} />
              </td>
              <td className="number">{count(preview.transactionCount)}</td>
              {SUMS.map((name) => (
                <td key={name} className="number">
                  <Money minor={preview[name]} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
        {previews.length > 1 && <Sums previews={previews} />}
      </table>
    </div>
  )
}

function Sums({ previews }: { readonly previews: readonly BusinessPreview[] }) {
  const sumOf = (name: (typeof SUMS)[number] | 'transactionCount') =>
    previews.reduce((sum, { preview }) => sum + preview[name], 0n)
  return (
    <tfoot>
      <tr>
        <th scope="row">Together</th>
        <td />
        <td className="number">{count(sumOf('transactionCount'))}</td>
        {SUMS.map((name) => (
          <td key={name} className="number">
            <Money minor={sumOf(name)} />
          </td>
        ))}
      </tr>
    </tfoot>
  )
}
