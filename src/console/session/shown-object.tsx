import {
  createContext,
  type ReactNode,
  useContext,
  useLayoutEffect,
  useMemo,
  useState,
} from 'react'

/** Whose the object of a page is, such as a payment's. */
export interface ShownObject {
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
