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

/** What all pages show: a mode, and one business or all. */
export interface ViewScope {
  readonly live: boolean
  /** Empty: all that the caller may see. */
  readonly businessId: string
}

/**
 * The mode and the business that the URL names, so that a copied link shows the same. On the page of one object they
 * are the object's: a link may name others, and what is done there is done to the object.
 */
export function useViewScope(): ViewScope {
  const [params] = useSearchParams()
  const only = useOnlyBusiness()
  const shown = useShownObject()
  const chosen = only ?? params.get('business') ?? ''
  return {
    live: shown?.live ?? params.get('mode') !== 'test',
    // All businesses have the object's among them.
    businessId: chosen === '' ? '' : (shown?.businessId ?? chosen),
  }
}

/** Returns the URL of a page, with the mode and the business of the present one. */
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
 * Returns a function that chooses the mode or the business that is shown. An object keeps its own, so the list that it
 * is in takes the place of its page.
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

/** Whose the object of a page is, such as a payment's. */
interface ShownObject {
  /** Empty: no business's. */
  readonly businessId: string
  /** Undefined: it is in both modes. */
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

/** The one object that the page is about; undefined: it shows a list, or does not know the object yet. */
export function useShownObject(): ShownObject | undefined {
  return useContext(ShownContext).object
}

/**
 * States which object the page is about: the frame shows its mode and business, whatever the URL names, from the first
 * time that the object is drawn.
 *
 * @param object undefined: not known yet
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
