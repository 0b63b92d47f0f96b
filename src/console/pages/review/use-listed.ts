import { useEffect } from 'react'

/** A list that is read page by page, as `useInfiniteQuery` returns it. */
interface Pages<Page> {
  readonly data: { readonly pages: readonly Page[] } | undefined
  readonly error: unknown
  readonly isPending: boolean
  readonly hasNextPage: boolean
  readonly isFetchingNextPage: boolean
  fetchNextPage(): unknown
}

/** The most pages that are read to find one item. */
const PAGES_MAX = 10

/** Finds one item of a list that has no look-up by id: reads on until it is found. */
export function useListed<Page, Item>(
  pages: Pages<Page>,
  find: (page: Page) => Item | undefined,
): { readonly found: Item | undefined; readonly isPending: boolean; readonly error: unknown } {
  const read = pages.data?.pages ?? []
  const found = read.map(find).find((item) => item !== undefined)
  const isMissing = found === undefined && pages.hasNextPage && read.length < PAGES_MAX
  useEffect(() => {
    if (isMissing && !pages.isFetchingNextPage && pages.error === null) pages.fetchNextPage()
  }, [isMissing, pages])
  return {
    found,
    isPending: pages.isPending || (isMissing && pages.error === null),
    error: pages.error,
  }
}
