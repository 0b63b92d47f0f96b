import { useSearchParams } from 'wouter'
import { useSession } from './session.tsx'

/** What all pages show: a mode, and one business or all. */
export interface ViewScope {
  readonly live: boolean
  /** Empty: all that the caller may see. */
  readonly businessId: string
}

/** The parameters of the URL that every link keeps. */
const KEPT = ['business', 'mode']

/** The mode and the business that the URL names, so that a copied link shows the same. */
export function useViewScope(): ViewScope {
  const [params] = useSearchParams()
  const { businessIds } = useSession()
  const only = businessIds.length === 1 ? businessIds[0] : undefined
  return { live: params.get('mode') !== 'test', businessId: only ?? params.get('business') ?? '' }
}

/** Returns the URL of a page, with the mode and the business of the present one. */
export function useHref(): (path: string, query?: Readonly<Record<string, string>>) => string {
  const [params] = useSearchParams()
  return (path, query = {}) => {
    const next = new URLSearchParams()
    for (const name of KEPT) {
      const value = params.get(name)
      if (value !== null) next.set(name, value)
    }
    for (const [name, value] of Object.entries(query)) {
      if (value !== '') next.set(name, value)
    }
    const text = next.toString()
    return text === '' ? path : `${path}?${text}`
  }
}

/** Reads one parameter of the URL, and changes it; an empty text removes it. */
export function useUrlState(
  name: string,
  initial = '',
): readonly [string, (value: string, options?: { readonly replace?: boolean }) => void] {
  const [params, setParams] = useSearchParams()
  const set = (value: string, options: { readonly replace?: boolean } = { replace: true }) => {
    setParams((current) => {
      const next = new URLSearchParams(current)
      if (value === initial) next.delete(name)
      else next.set(name, value)
      return next
    }, options)
  }
  return [params.get(name) ?? initial, set]
}
