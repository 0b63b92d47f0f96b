import { createContext, type ReactNode, useContext, useEffect, useMemo, useRef } from 'react'
import { Failure, failureOf } from '../lists/failure.tsx'

interface Violations {
  /** What the service found wrong with a field, or with a part of it. */
  of(name: string): string | undefined
  /** Says that a field shows what is wrong with it. @returns a function that ends it */
  show(name: string): () => void
}

const ViolationsContext = createContext<Violations>({ of: () => undefined, show: () => () => {} })

/**
 * Shows the fault of a request beside the field that it names, and the rest below the fields. Fields are named as in
 * the request's JSON: `options.rateLimit`, `allowedCidrs`.
 */
export function FormFault({
  error,
  children,
}: {
  readonly error: unknown
  readonly children: ReactNode
}) {
  const shown = useRef(new Set<string>())
  const value = useMemo<Violations>(() => {
    const fields = error ? failureOf(error).fields : []
    return {
      of: (name) => fields.find(({ field }) => isPart(field, name))?.description,
      show(name) {
        shown.current.add(name)
        return () => shown.current.delete(name)
      },
    }
  }, [error])
  const isShown = (field: string) => [...shown.current].some((name) => isPart(field, name))
  return (
    <ViolationsContext value={value}>
      {children}
      {error !== null && error !== undefined && <Failure error={error} isShown={isShown} />}
    </ViolationsContext>
  )
}

/** Whether a path of a request is a field or lies inside of it. */
function isPart(path: string, name: string): boolean {
  return path === name || path.startsWith(`${name}.`) || path.startsWith(`${name}[`)
}

/** What is wrong with a field, which shows it. */
export function useViolation(name: string): string | undefined {
  const violations = useContext(ViolationsContext)
  useEffect(() => violations.show(name), [violations, name])
  return violations.of(name)
}
