import type { ReactNode } from 'react'
import { Button } from '../controls/button.tsx'
import { Failure } from './failure.tsx'
import { Waiting } from './waiting.tsx'

/** A list that is read page by page, as `useInfiniteQuery` returns it. */
interface Paged {
  readonly error: unknown
  readonly isPending: boolean
  readonly hasNextPage: boolean
  readonly isFetchingNextPage: boolean
  fetchNextPage(): unknown
  refetch(): unknown
}

/** The states of a list around its table: loading, failed, empty, and more pages. */
export function ListFrame({
  pages,
  isEmpty,
  empty,
  children,
}: {
  readonly pages: Paged
  readonly isEmpty: boolean
  readonly empty: ReactNode
  readonly children: ReactNode
}) {
  if (pages.isPending) return <Waiting rows={12} />
  if (pages.error && isEmpty) {
    return <Failure error={pages.error} onRetry={() => void pages.refetch()} />
  }
  return (
    <>
      {isEmpty && !pages.hasNextPage ? empty : children}
      {pages.error !== null && (
        <Failure error={pages.error} onRetry={() => void pages.fetchNextPage()} />
      )}
      {pages.hasNextPage && (
        <div className="more">
          <Button busy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
            {pages.isFetchingNextPage ? 'Loading…' : isEmpty ? 'Look further back' : 'More'}
          </Button>
        </div>
      )}
    </>
  )
}
