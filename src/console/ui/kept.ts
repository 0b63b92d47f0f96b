import { skipToken, useQuery, useQueryClient } from '@tanstack/react-query'

/**
 * A state that stays when the viewer leaves the page, until they sign out.
 *
 * @returns the state, and a function that changes it, also after the page is gone
 */
export function useKept<T>(
  name: string,
  initial: T,
): readonly [T, (change: (before: T) => T) => void] {
  const queries = useQueryClient()
  const queryKey = ['kept', name]
  const { data } = useQuery<T>({
    queryKey,
    queryFn: skipToken,
    initialData: initial,
    gcTime: Number.POSITIVE_INFINITY,
    staleTime: Number.POSITIVE_INFINITY,
    structuralSharing: false,
  })
  const change = (next: (before: T) => T) =>
    queries.setQueryData<T>(queryKey, (before = initial) => next(before))
  return [data ?? initial, change]
}
