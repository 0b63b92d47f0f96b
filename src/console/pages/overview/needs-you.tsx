import { useQuery } from '@connectrpc/connect-query'
import { OverviewService } from '../../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { type ReviewItem, ReviewKind } from '../../../../gen/inflow/overview/v1/review_pb.ts'
import { naira } from '../../format/money.ts'
import { useViewScope } from '../../session/view-scope.ts'
import { PageLink } from '../../ui/href.tsx'
import { Failure } from '../../ui/lists/failure.tsx'
import { Waiting } from '../../ui/lists/waiting.tsx'
import { Section } from '../../ui/page.tsx'
import { Time } from '../../ui/values.tsx'
import { REVIEW_KINDS } from './review-kinds.ts'

const SHOWN = 5
const REFRESH_MS = 30_000

/** The oldest items of the review queue, each with the page where it is decided. */
export function NeedsYou() {
  const { live, businessId } = useViewScope()
  const { data, error, isPending, refetch } = useQuery(
    OverviewService.method.listReviewItems,
    { live, businessId, pageSize: SHOWN },
    { refetchInterval: REFRESH_MS },
  )
  return (
    <Section title="Needs you" actions={<PageLink to="/review">All</PageLink>}>
      {isPending && <Waiting rows={SHOWN} />}
      {error && <Failure error={error} onRetry={() => void refetch()} />}
      {data?.items.length === 0 && <p className="faint">Nothing waits for a decision.</p>}
      <ul className="needs">
        {data?.items.map((item) => (
          <Item key={`${item.kind} ${item.id}`} item={item} />
        ))}
      </ul>
    </Section>
  )
}

function Item({ item }: { readonly item: ReviewItem }) {
  const { kind, text, since, amountMinor } = item
  const [to, action] = placeOf(item)
  return (
    <li>
      <span className="need-kind">{REVIEW_KINDS[kind]?.[0] ?? 'item'}</span>
      <span className="need-text" title={text}>
        {text}
      </span>
      <span className="need-amount">{amountMinor > 0n && naira(amountMinor)}</span>
      <span className="faint">
        <Time at={since} />
      </span>
      <PageLink to={to} className="button">
        {action}
      </PageLink>
    </li>
  )
}

/** Where an item is decided, and the word for it. */
function placeOf({ kind, id, businessId, transactionId }: ReviewItem): readonly [string, string] {
  switch (kind) {
    case ReviewKind.UNMATCHED_PAYMENT:
      return ['/review', 'Assign']
    case ReviewKind.HELD_NOTIFICATION:
      return ['/review', 'Review']
    case ReviewKind.PAYMENT_CONFLICT:
      return [`/payments/${transactionId}`, 'Compare']
    case ReviewKind.HELD_PAYMENT:
      return [`/payments/${id}`, 'Decide']
    case ReviewKind.ACCOUNT_OPENING:
      return [`/accounts/${businessId}/${id}`, 'Resolve']
    case ReviewKind.ENDPOINT:
      return [`/webhooks/${id}`, 'Open']
    case ReviewKind.SETTLEMENT:
      return ['/settlement', 'Settle']
    default:
      return ['/review', 'Review']
  }
}
