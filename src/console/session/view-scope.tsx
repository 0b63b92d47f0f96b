import {
  createContext,
  type ReactNode,
  useContext,
  useLayoutEffect,
  useMemo,
  useState,
} from 'react'
import { useLocation, useSearchParams } from 'wouter'
import { useOnlyBusiness } from './session.tsx'

/** The scope of all pages: a mode, and one business or all. */
export interface ViewScope {
  readonly live: boolean
  /** Empty: all businesses that the caller may see. */
  readonly businessId: string
}

/**
 * The mode and the business in the URL, so that a copied link shows the same data. On the page of an object, they are those
 * of the object, even if the link names others, because actions on the page apply to the object.
 */
export function useViewScope(): ViewScope {
  const [params] = useSearchParams()
  const only = useOnlyBusiness()
  const shown = useShownObject()
  const chosen = only ?? params.get('business') ?? ''
  return {
    live: shown?.live ?? params.get('mode') !== 'test',
    // "All businesses" includes the business of the object.
    businessId: chosen === '' ? '' : (shown?.businessId ?? chosen),
  }
}

/** Returns a function that makes the URL of a page, with the mode and business of the current page. */
export function useHref(): (path: string, query?: Readonly<Record<string, string>>) => string {
  const [params] = useSearchParams()
  const { live, businessId } = useViewScope()
  return (path, query = {}) => {
    const business = params.has('business') ? businessId : ''
    return urlOf(path, { business, mode: live ? '' : 'test', ...query })
  }
}

function urlOf(path: string, query: Readonly<Record<string, string>>): string {
  const text = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== ''))
  return text.size === 0 ? path : `${path}?${text}`
}

/**
 * Returns a function that chooses the shown mode or business. An object keeps its own mode and business, so the page of an
 * object is replaced by its list.
 */
export function useChooseScope(): (
  change: { readonly mode: string } | { readonly business: string },
) => void {
  const [, setMode] = useUrlState('mode')
  const [, setBusiness] = useUrlState('business')
  const { live, businessId } = useViewScope()
  const shown = useShownObject()
  const [location, navigate] = useLocation()
  return (change) => {
    const isOfObject = shown && ('business' in change || shown.live !== undefined)
    if (isOfObject) {
      const list = `/${location.split('/')[1]}`
      navigate(urlOf(list, { business: businessId, mode: live ? '' : 'test', ...change }))
    } else if ('business' in change) setBusiness(change.business)
    else setMode(change.mode)
  }
}

/** Reads one parameter of the URL, and changes it; an empty text removes it. */
export function useUrlState(
  name: string,
  initial = '',
): readonly [string, (value: string) => void] {
  const [params, setParams] = useSearchParams()
  const set = (value: string) => {
    setParams(
      (current) => {
        const next = new URLSearchParams(current)
        if (value === initial) next.delete(name)
        else next.set(name, value)
        return next
      },
      { replace: true },
    )
  }
  return [params.get(name) ?? initial, set]
}

/** The owner of the object of a page, such as a payment. */
interface ShownObject {
  /** Empty: the object belongs to no business. */
  readonly businessId: string
  /** Undefined: the object belongs to both modes. */
  readonly live?: boolean | undefined
}

interface Shown {
  readonly object: ShownObject | undefined
  show(object: ShownObject | undefined): void
}

const ShownContext = createContext<Shown>({ object: undefined, show: () => undefined })

export function ShownObjectProvider({ children }: { readonly children: ReactNode }) {
  const [object, show] = useState<ShownObject>()
  const value = useMemo(() => ({ object, show }), [object])
  return <ShownContext value={value}>{children}</ShownContext>
}

/** The object of the page; undefined: the page shows a list, or the object is not loaded yet. */
export function useShownObject(): ShownObject | undefined {
  return useContext(ShownContext).object
}

/**
 * Sets the object of the page. From its first drawing on, the frame shows the mode and business of the object, whatever the
 * URL names.
 *
 * @param object undefined: not loaded yet
 */
export function useShowObject(object: ShownObject | undefined): void {
  const { show } = useContext(ShownContext)
  const { businessId, live } = object ?? {}
  useLayoutEffect(() => {
    if (businessId === undefined) return undefined
    show({ businessId, live })
    return () => show(undefined)
  }, [businessId, live, show])
}
