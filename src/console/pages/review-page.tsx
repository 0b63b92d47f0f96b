import { createQueryOptions, useTransport } from '@connectrpc/connect-query'
import { useQueries } from '@tanstack/react-query'
import { type ReactNode, type RefObject, useEffect, useId, useMemo, useRef, useState } from 'react'
import { AccountStatus, AccountStatusSchema } from '../../../gen/inflow/account/v1/account_pb.ts'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import {
  type ReviewCount,
  type ReviewItem,
  ReviewKind,
} from '../../../gen/inflow/overview/v1/review_pb.ts'
import { bankName, enumLabel } from '../format/enums.ts'
import { endpointName } from '../format/ids.ts'
import { count, naira } from '../format/money.ts'
import { msOf } from '../format/time.ts'
import { useReviewSummary } from '../session/review-summary.ts'
import { useMay, useReader, useRestricted } from '../session/session.tsx'
import { useUrlState, useViewScope } from '../session/view-scope.tsx'
import { ChoiceFilter } from '../ui/filters.tsx'
import { Icon } from '../ui/icons.tsx'
import { isModified, isTyping } from '../ui/keys.ts'
import { ListFrame, usePagedList } from '../ui/list.tsx'
import { Empty, Page } from '../ui/page.tsx'
import { Money, Status, Time } from '../ui/values.tsx'
import { DecideTogether, ItemActions } from './review-actions.tsx'
import { ItemDetails } from './review-details.tsx'
import { itemKey, kindOf, REVIEW_KINDS } from './review-kinds.ts'
import { ASSIGNEES, ItemNote, NoteLine, useAssigned } from './review-note.tsx'

/** How often the queue is read: no stream has all that needs an operator. */
const REFRESH_MS = 30_000

/** Everything that waits for a decision, oldest first; each opens in place. */
export function ReviewPage() {
  const [opened, setOpened] = useUrlState('item')
  const { items, pages, isFiltered, readCount, isPart, isGone } = useQueue(opened)
  const counts = useCounts()
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const at = items.findIndex((item) => itemKey(item) === opened)
  const open = (index: number) => {
    const item = items[index]
    if (item) setOpened(itemKey(item))
  }
  const list = useReviewKeys(at, open)
  const isReader = useReader()
  const isPortal = useRestricted()
  return (
    <Page title="Review" actions={items.length > 0 && !isReader && <Keys />}>
      <Tabs counts={counts}>
        <ChoiceFilter name="order" label="Order" any="Oldest first" choices={ORDER_CHOICES} />
        {!isPortal && <ChoiceFilter name="assignee" label="Assignee" choices={ASSIGNEES} />}
      </Tabs>
      {isPart && (
        <p className="soft" role="status">
          These are of the {count(readCount)} items that have waited for longest.
        </p>
      )}
      {isGone && (
        <p className="soft" role="status">
          The item of the link does not wait any more.
        </p>
      )}
      {!isReader && (
        <DecideTogether
          items={items.filter((item) => chosen.has(itemKey(item)))}
          onClosed={() => setChosen(new Set())}
        />
      )}
      <ListFrame
        pages={pages}
        isEmpty={items.length === 0}
        empty={<EmptyQueue isFiltered={isFiltered} />}
      >
        <ol className="review" ref={list} aria-label="What waits for a decision">
          {items.map((item, index) => (
            <ReviewRow
              key={itemKey(item)}
              item={item}
              isOpen={index === at}
              isChosen={chosen.has(itemKey(item))}
              onChoose={
                isReader
                  ? undefined
                  : () => setChosen((now) => now.symmetricDifference(new Set([itemKey(item)])))
              }
              onToggle={() => setOpened(index === at ? '' : itemKey(item))}
              // The item leaves the queue: the next one opens.
              onDecided={() => open(index + 1)}
            />
          ))}
        </ol>
      </ListFrame>
    </Page>
  )
}

/**
 * The items as the URL filters and orders them. The service lists the oldest first, of all assignees, so for another
 * order or an assignee the queue is read on, as it is to find the item that is open.
 */
function useQueue(opened: string) {
  const { live, businessId } = useViewScope()
  const [code] = useUrlState('kind')
  const [order] = useUrlState('order')
  const [assignee] = useUrlState('assignee')
  const kind = REVIEW_KINDS.find((each) => each.code === code)?.kind
  const { rows, pages } = usePagedList(
    OverviewService.method.listReviewItems,
    'items',
    { live, businessId, kinds: kind === undefined ? [] : [kind] },
    { refetchMs: REFRESH_MS },
  )
  const ordered = useMemo(() => rows.toSorted(ORDERS[order]?.compare ?? (() => 0)), [rows, order])
  const isLost = opened !== '' && !rows.some((item) => itemKey(item) === opened)
  const isArranged = order !== '' || assignee !== ''
  const isSought = pages.hasNextPage && (isLost || isArranged)
  useEffect(() => {
    if (isSought && !pages.isFetchingNextPage && pages.error === null && rows.length < SOUGHT_MAX)
      void pages.fetchNextPage()
  })
  return {
    items: ordered.filter(useAssigned(assignee)),
    pages,
    isFiltered: code !== '' || assignee !== '',
    readCount: rows.length,
    /** Whether other items, which were not read, may belong among them. */
    isPart: isArranged && pages.hasNextPage && rows.length >= SOUGHT_MAX,
    /** Whether the item that is to be open waits no more. */
    isGone: isLost && !pages.isPending && !isSought,
  }
}

/** The most items that are read to find one, or to order them. */
const SOUGHT_MAX = 1_000

type Compare = (a: ReviewItem, b: ReviewItem) => number

const ORDERS: Readonly<Record<string, { readonly label: string; readonly compare: Compare }>> = {
  newest: {
    label: 'Newest first',
    compare: (a, b) => (msOf(b.since) ?? 0) - (msOf(a.since) ?? 0),
  },
  amount: {
    label: 'Largest amount first',
    compare: (a, b) => Number(b.amountMinor - a.amountMinor),
  },
  business: {
    label: 'By business',
    compare: (a, b) => a.businessName.localeCompare(b.businessName),
  },
}

const ORDER_CHOICES = Object.entries(ORDERS).map(([value, { label }]) => ({ value, label }))

/** The counts of all kinds; the badge of the rail reads the same. */
function useCounts(): readonly ReviewCount[] {
  return useReviewSummary().data?.counts ?? []
}

function countText({ count, more }: Pick<ReviewCount, 'count' | 'more'>): string {
  return `${count}${more ? '+' : ''}`
}

function Tabs({
  counts,
  children,
}: {
  readonly counts: readonly ReviewCount[]
  readonly children: ReactNode
}) {
  const [chosen, choose] = useUrlState('kind')
  const total = {
    count: counts.reduce((sum, { count }) => sum + count, 0),
    more: counts.some(({ more }) => more),
  }
  const tabs = REVIEW_KINDS.flatMap(({ kind, code, tab: name }) => {
    const found = counts.find((each) => each.kind === kind)
    return found || code === chosen ? [{ code, name, text: found ? countText(found) : '0' }] : []
  })
  return (
    <fieldset className="filters">
      <legend className="hidden">Kind</legend>
      {[{ code: '', name: 'All', text: countText(total) }, ...tabs].map(({ code, name, text }) => (
        <button
          key={code}
          type="button"
          className={code === chosen ? 'chip set' : 'chip'}
          aria-pressed={code === chosen}
          onClick={() => choose(code)}
        >
          {name} <strong className="number">{text}</strong>
        </button>
      ))}
      {children}
    </fieldset>
  )
}

const KEYS = [
  ['j k', 'move'],
  ['a', 'assign, accept'],
  ['r', 'return'],
  ['s', 'skip'],
  ['t', 'take, release'],
] as const

function Keys() {
  const isPortal = useRestricted()
  return (
    <p className="keys faint">
      {KEYS.filter(([key]) => key !== 't' || !isPortal).map(([key, does]) => (
        <span key={key}>
          <kbd>{key}</kbd> {does}
        </span>
      ))}
    </p>
  )
}

const DECISIONS = [
  'unmatched_payment.assign',
  'unmatched_payment.return',
  'notification.resolve',
  'payment_conflict.resolve',
  'account.resolve',
  'transaction.accept',
  'transaction.return',
]

/** Says that nothing waits, and when the last decision was made. */
function EmptyQueue({ isFiltered }: { readonly isFiltered: boolean }) {
  const lastMs = useLastDecision()
  return (
    <Empty title={isFiltered ? 'Nothing like this waits' : 'Nothing waits for a decision'}>
      Payments without an account, held notifications, conflicts, openings without an answer and
      failing endpoints appear here.
      {lastMs !== undefined && (
        <>
          {' '}
          The last decision was made <Time at={lastMs} />.
        </>
      )}
    </Empty>
  )
}

/** When the last item was ended, as far as the caller may read the audit log. */
function useLastDecision(): number | undefined {
  const transport = useTransport()
  const { businessId } = useViewScope()
  const enabled = useMay()(AdminService.method.listAuditEntries)
  const read = useQueries({
    queries: DECISIONS.map((action) => ({
      ...createQueryOptions(
        AdminService.method.listAuditEntries,
        { action, businessId, pageSize: 1 },
        { transport },
      ),
      enabled,
    })),
  })
  const times = read.flatMap(({ data }) => msOf(data?.entries[0]?.at) ?? [])
  return times.length === 0 ? undefined : Math.max(...times)
}

const STEPS: Readonly<Record<string, number>> = { j: 1, s: 1, k: -1 }

/**
 * `j` and `s` open the next item, `k` the one before; `a`, `r` and `t` press the button of the open item that is
 * marked with them by `data-key`.
 *
 * @param at the index of the open item; -1: none
 * @returns refers to the list
 */
function useReviewKeys(
  at: number,
  open: (index: number) => void,
): RefObject<HTMLOListElement | null> {
  const list = useRef<HTMLOListElement>(null)
  const latest = useRef({ at, open })
  latest.current = { at, open }
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (isModified(event) || event.defaultPrevented || isTyping(event.target)) return
      if (document.querySelector('[role="dialog"]') !== null) return
      const step = STEPS[event.key]
      const now = latest.current
      if (step !== undefined) now.open(Math.max(0, now.at + step))
      else if (/^[art]$/.test(event.key)) press(list.current, event.key)
      else return
      event.preventDefault()
    }
    window.addEventListener('keydown', onKey)
    return () => window.removeEventListener('keydown', onKey)
  }, [])
  useEffect(() => {
    if (at < 0) return
    const head = list.current?.children[at]?.querySelector<HTMLElement>('[aria-expanded]')
    head?.focus()
    head?.scrollIntoView({ block: 'nearest' })
  }, [at])
  return list
}

function press(list: HTMLElement | null, key: string): void {
  list?.querySelector<HTMLElement>(`[data-key="${key}"] :is(button, a)`)?.click()
}

interface ReviewRowProps {
  readonly item: ReviewItem
  readonly isOpen: boolean
  readonly isChosen: boolean
  /** Chooses it for a decision about several; undefined: the caller decides nothing. */
  readonly onChoose: (() => void) | undefined
  readonly onToggle: () => void
  readonly onDecided: () => void
}

/** One item: what is known in a line, and, when it is open, all of it with the actions that can end it. */
function ReviewRow(props: ReviewRowProps) {
  const { item, isOpen, isChosen, onChoose, onToggle, onDecided } = props
  const id = useId()
  return (
    <li className={isOpen ? 'review-item open' : 'review-item'}>
      {onChoose && (
        <input
          type="checkbox"
          className="review-choice"
          aria-label={`Choose ${kindOf(item.kind)?.one} ${item.text}`}
          checked={isChosen}
          onChange={onChoose}
        />
      )}
      <button
        type="button"
        className="review-head"
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        onClick={onToggle}
      >
        <Icon name={isOpen ? 'down' : 'right'} size={12} />
        <span className="review-kind">{kindOf(item.kind)?.one}</span>
        <span className="review-business" title={item.businessName}>
          {item.businessName}
        </span>
        <ReviewSubject item={item} />
        <span className="review-text" title={item.text}>
          {item.text}
        </span>
        <ReviewAmount item={item} />
        <span className="faint review-time">
          <Time at={item.since} />
        </span>
        <NoteLine item={item} />
      </button>
      {isOpen && (
        <div className="review-body" id={id}>
          <p className="soft">
            {[item.businessName, item.bank === 0 ? '' : bankName(item.bank), item.text]
              .filter((part) => part !== '')
              .join(' · ')}
          </p>
          <ItemDetails item={item} />
          <ItemNote item={item} />
          <ItemActions item={item} onDecided={onDecided} />
        </div>
      )}
    </li>
  )
}

/** Whom it concerns: the customer of its account, with the state of that, or the endpoint. */
function ReviewSubject({ item }: { readonly item: ReviewItem }) {
  const { kind, account, accountNumber, endpointUrl, endpointDescription } = item
  const name =
    endpointUrl === ''
      ? (account?.customerName ?? accountNumber)
      : endpointName(endpointUrl, endpointDescription)
  const state =
    account !== undefined
      ? account.status !== AccountStatus.ACTIVE && enumLabel(AccountStatusSchema, account.status)
      : kind === ReviewKind.UNMATCHED_PAYMENT && 'No account'
  return (
    <span className="review-subject">
      <span title={name}>{name}</span>
      {state && <Status tone="neutral">{state}</Status>}
    </span>
  )
}

/** What was expected, or recorded, and what was paid, or reported. */
function ReviewAmount({
  item: { expectedAmountMinor: expected, amountMinor },
}: {
  readonly item: ReviewItem
}) {
  const differs = expected > 0n && expected !== amountMinor
  return (
    <span className="review-amount">
      {differs && (
        <>
          <span className="faint">
            <span className="hidden">Expected </span>
            {naira(expected)}
          </span>
          <span className="faint" aria-hidden="true">
            {' → '}
          </span>
          <span className="hidden">, paid </span>
        </>
      )}
      {amountMinor > 0n && <Money minor={amountMinor} />}
    </span>
  )
}
