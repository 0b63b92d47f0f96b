import type { ReactNode } from 'react'
import { Link } from 'wouter'
import { useHref } from '../session/view-scope.ts'

/** A link to a page of the console that keeps the mode and the business. */
export function PageLink({
  to,
  query,
  children,
  className,
  isHere = false,
}: {
  readonly to: string
  readonly query?: Readonly<Record<string, string>>
  readonly children: ReactNode
  readonly className?: string
  /** It leads to what is shown. */
  readonly isHere?: boolean
}) {
  const href = useHref()
  return (
    <Link
      href={href(to, query)}
      className={className ?? 'link'}
      aria-current={isHere ? 'page' : undefined}
    >
      {children}
    </Link>
  )
}
