import type { DescEnum } from '@bufbuild/protobuf'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { type ReactNode, useSyncExternalStore } from 'react'
import { Link } from 'wouter'
import { enumLabel, enumTone, type Tone } from '../format/enums.ts'
import { shorten } from '../format/ids.ts'
import { naira } from '../format/money.ts'
import { msOf, timeText, timeTitle } from '../format/time.ts'
import { useBusinessName } from '../session/business-names.ts'
import { useHref } from '../session/view-scope.tsx'
import { CopyButton } from './button.tsx'

/** An amount in kobo; struck through if the payment was reversed. */
export function Money({ minor, isReversed = false }: { minor: bigint; isReversed?: boolean }) {
  return <span className={isReversed ? 'money reversed' : 'money'}>{naira(minor)}</span>
}

/** A dash in place of unknown or empty values. */
export function Dash() {
  return <span className="faint">–</span>
}

/** A text from outside the service. It is cut with an ellipsis if there is no room, and shown in full on hover. */
export function Clipped({ text }: { readonly text: string }) {
  if (text === '') return <Dash />
  return (
    <span className="clipped" title={text}>
      {text}
    </span>
  )
}

/** A time: relative within an hour, otherwise local; on hover in UTC and Lagos. */
export function Time({ at }: { readonly at: Timestamp | number | undefined }) {
  const now = useNow()
  const ms = typeof at === 'number' ? at : msOf(at)
  if (ms === undefined) return <Dash />
  return (
    <time
      dateTime={new Date(ms).toISOString()}
      // The title is computed only on hover, because a list has many times.
      onPointerEnter={({ currentTarget }) => currentTarget.setAttribute('title', timeTitle(ms))}
    >
      {timeText(ms, now)}
    </time>
  )
}

const listeners = new Set<() => void>()
let nowMs = Date.now()
let timer: ReturnType<typeof setInterval> | undefined

/** The current time, updated every second: one timer updates all relative times of a page together. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => nowMs)
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  timer ??= setInterval(tick, 1_000)
  return () => {
    listeners.delete(listener)
    if (listeners.size > 0) return
    clearInterval(timer)
    timer = undefined
  }
}

function tick(): void {
  nowMs = Date.now()
  for (const listener of listeners) listener()
}

/** An id, shortened in the middle, shown in full on hover, with a button that copies it. */
export function Id({ text, charsMax = 16 }: { readonly text: string; readonly charsMax?: number }) {
  if (text === '') return <Dash />
  return (
    <span className="id">
      <code title={text}>{shorten(text, charsMax)}</code>
      <CopyButton text={text} what={text} />
    </span>
  )
}

const SHAPES: Readonly<Record<Tone, string>> = {
  good: 'M3 8.5 6.5 12 13 4.5',
  waiting: 'M8 3v5l3 2M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13',
  bad: 'M4 4l8 8M12 4l-8 8',
  neutral: 'M3 8h10',
}

export function Status({ tone, children }: { readonly tone: Tone; readonly children: string }) {
  return (
    <span className={`status ${tone}`}>
      <svg className="icon" width="12" height="12" viewBox="0 0 16 16" aria-hidden="true">
        <path d={SHAPES[tone]} />
      </svg>
      {children}
    </span>
  )
}

export function EnumStatus({ of, value }: { readonly of: DescEnum; readonly value: number }) {
  return <Status tone={enumTone(of, value)}>{enumLabel(of, value)}</Status>
}

interface PageLinkProps {
  readonly to: string
  readonly query?: Readonly<Record<string, string>>
  readonly children: ReactNode
  readonly className?: string
  /** Whether the link leads to the current page. */
  readonly isHere?: boolean
  /** The tooltip, if only an icon is shown. */
  readonly tooltip?: string
}

/** A link to a page of the console that keeps the mode and the business. */
export function PageLink({
  to,
  query,
  children,
  className,
  tooltip,
  isHere = false,
}: PageLinkProps) {
  const href = useHref()
  return (
    <Link
      href={href(to, query)}
      className={className ?? 'link'}
      aria-current={isHere ? 'page' : undefined}
      title={tooltip}
    >
      {children}
    </Link>
  )
}

interface FigureProps {
  readonly title: ReactNode
  readonly children: ReactNode
  readonly note: ReactNode
}

/** A large figure in a list of figures, with its explanation below. */
export function Figure({ title, children, note }: FigureProps) {
  return (
    <li className="figure">
      <span className="figure-title">{title}</span>
      <span className="figure-value">{children}</span>
      <span className="faint">{note}</span>
    </li>
  )
}

/** The size of the drawing, which the style scales. */
const WIDTH = 120
const HEIGHT = 28

/**
 * A small line of values, the latest at the right, from zero to the highest.
 *
 * @param label describes the values for screen readers
 */
export function Sparkline({ values, label }: { values: readonly number[]; label: string }) {
  const max = Math.max(1, ...values)
  const step = WIDTH / Math.max(1, values.length - 1)
  const points = values.map(
    (value, index) =>
      `${(index * step).toFixed(1)},${(HEIGHT - 2 - (value / max) * (HEIGHT - 4)).toFixed(1)}`,
  )
  return (
    <svg
      className="sparkline"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <polygon points={`0,${HEIGHT} ${points.join(' ')} ${WIDTH},${HEIGHT}`} />
      <polyline points={points.join(' ')} vectorEffect="non-scaling-stroke" />
    </svg>
  )
}

/** The name of a customer, with a link to the page of the customer. */
export function CustomerLink({
  businessId,
  email,
  children,
}: {
  readonly businessId: string
  readonly email: string
  readonly children: ReactNode
}) {
  return (
    <PageLink to={`/accounts/customer/${businessId}`} query={{ email }}>
      {children}
    </PageLink>
  )
}

/** The name of a business, with a link to its page. */
export function BusinessLink({ id }: { readonly id: string }) {
  return <PageLink to={`/businesses/${id}`}>{useBusinessName(id)}</PageLink>
}
