import { useInfiniteQuery, useQuery } from '@connectrpc/connect-query'
import { OverviewService } from '../../../../gen/inflow/overview/v1/overview_service_pb.ts'
import {
  type ReviewCount,
  type ReviewItem,
  ReviewKind,
} from '../../../../gen/inflow/overview/v1/review_pb.ts'
import { useUrlState, useViewScope } from '../../session/view-scope.ts'
import { ListFrame } from '../../ui/lists/list.tsx'
import { Page } from '../../ui/page.tsx'
import { EmptyQueue } from './empty-queue.tsx'
import { countText, KINDS, keyOf, kindOf } from './kinds.ts'
import { ReviewRow } from './review-row.tsx'
import { useReviewKeys } from './use-review-keys.ts'
import '../../styles/review.css'

/** How often the queue is read: no stream has all that needs an operator. */
const REFRESH_MS = 30_000

/** Everything that waits for a decision, oldest first; each opens in place. */
export function ReviewPage() {
  const [code] = useUrlState('kind')
  const [opened, setOpened] = useUrlState('item')
  const { queue, items } = useQueue(kindOf(code))
  const counts = useCounts()
  const at = items.findIndex((item) => keyOf(item) === opened)
  const open = (index: number) => {
    const item = items[index]
    if (item) setOpened(keyOf(item))
  }
  const list = useReviewKeys(at, open)
  return (
    <Page title="Review" actions={items.length > 0 && <Keys />}>
      <Tabs counts={counts} chosen={code} />
      <ListFrame
        pages={queue}
        isEmpty={items.length === 0}
        empty={<EmptyQueue isFiltered={code !== ''} />}
      >
        <ol className="review" ref={list} aria-label="What waits for a decision">
          {items.map((item, index) => (
            <ReviewRow
              key={keyOf(item)}
              item={item}
              isOpen={index === at}
              onToggle={() => setOpened(index === at ? '' : keyOf(item))}
              // The item leaves the queue: the next one opens.
              onDecided={() => open(index + 1)}
            />
          ))}
        </ol>
      </ListFrame>
    </Page>
  )
}

function useQueue(kind: ReviewKind) {
  const { live, businessId } = useViewScope()
  const queue = useInfiniteQuery(
    OverviewService.method.listReviewItems,
    {
      live,
      businessId,
      kinds: kind === ReviewKind.UNSPECIFIED ? [] : [kind],
      pageToken: '',
    },
    {
      pageParamKey: 'pageToken',
      getNextPageParam: (last) => last.nextPageToken || undefined,
      refetchInterval: REFRESH_MS,
    },
  )
  const items: readonly ReviewItem[] = queue.data?.pages.flatMap((page) => page.items) ?? []
  return { queue, items }
}

/** The counts of all kinds; the badge of the rail reads the same. */
function useCounts(): readonly ReviewCount[] {
  const { live, businessId } = useViewScope()
  const read = useQuery(OverviewService.method.listReviewItems, { live, businessId, pageSize: 1 })
  return read.data?.counts ?? []
}

function Tabs({
  counts,
  chosen,
}: {
  readonly counts: readonly ReviewCount[]
  readonly chosen: string
}) {
  const [, choose] = useUrlState('kind')
  const total = {
    count: counts.reduce((sum, { count }) => sum + count, 0),
    more: counts.some(({ more }) => more),
  }
  const tabs = KINDS.flatMap(({ kind, code, name }) => {
    const found = counts.find((each) => each.kind === kind)
    return found || code === chosen ? [{ code, name, text: found ? countText(found) : '0' }] : []
  })
  return (
    <fieldset className="filters">
      <legend className="hidden">Kind</legend>
      {[{ code: '', name: 'All', text: countText(total) }, ...tabs].map(({ code, name, text }) => (
        <button
          key={code}
          type="button"
          className={code === chosen ? 'chip set' : 'chip'}
          aria-pressed={code === chosen}
          onClick={() => choose(code)}
        >
          {name} <strong className="number">{text}</strong>
        </button>
      ))}
    </fieldset>
  )
}

const KEYS = [
  ['j k', 'move'],
  ['a', 'assign, accept'],
  ['r', 'return'],
  ['s', 'skip'],
] as const

function Keys() {
  return (
    <p className="keys faint">
      {KEYS.map(([key, does]) => (
        <span key={key}>
          <kbd>{key}</kbd> {does}
        </span>
      ))}
    </p>
  )
}
