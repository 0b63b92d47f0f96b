import { type ReactNode, useEffect } from 'react'

/** A page: its title, what can be done, and its content. */
export function Page({
  title,
  actions,
  children,
  isWide = false,
}: {
  readonly title: string
  readonly actions?: ReactNode
  readonly children: ReactNode
  /** Lists use the whole width. */
  readonly isWide?: boolean
}) {
  useEffect(() => {
    document.title = `${title} · Inflow`
  }, [title])
  return (
    <div className={isWide ? 'page wide' : 'page'}>
      <header className="page-head">
        <h1>{title}</h1>
        {actions && <div className="page-actions">{actions}</div>}
      </header>
      {children}
    </div>
  )
}

/** A part of a page under a heading. */
export function Section({
  title,
  actions,
  children,
}: {
  readonly title: string
  readonly actions?: ReactNode
  readonly children: ReactNode
}) {
  return (
    <section className="section">
      <header className="section-head">
        <h2>{title}</h2>
        {actions && <div className="page-actions">{actions}</div>}
      </header>
      {children}
    </section>
  )
}

/** Names and values below each other. Values that are undefined, false or empty are left out. */
export function Facts({
  facts,
}: {
  readonly facts: readonly (readonly [name: string, value: ReactNode])[]
}) {
  return (
    <dl className="facts">
      {facts
        .filter(([, value]) => value !== undefined && value !== false && value !== '')
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  )
}
