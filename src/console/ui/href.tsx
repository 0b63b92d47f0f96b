import type { ReactNode } from 'react'
import { Link } from 'wouter'
import { useHref } from '../session/view-scope.ts'

/** A link to a page of the console that keeps the mode and the business. */
export function PageLink({
  to,
  query,
  children,
  className,
}: {
  readonly to: string
  readonly query?: Readonly<Record<string, string>>
  readonly children: ReactNode
  readonly className?: string
}) {
  const href = useHref()
  return (
    <Link href={href(to, query)} className={className ?? 'link'}>
      {children}
    </Link>
  )
}
