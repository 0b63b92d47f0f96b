import { type ReactNode, type RefObject, useEffect, useId, useMemo, useRef, useState } from 'react'
import { AccountStatus, AccountStatusSchema } from '../../../gen/inflow/account/v1/account_pb.ts'
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
import { useReader, useRestricted } from '../session/session.tsx'
import { useUrlState, useViewScope } from '../session/view-scope.tsx'
import { ChoiceFilter } from '../ui/filters.tsx'
import { Icon } from '../ui/icons.tsx'
import { isModified, isTyping } from '../ui/keys.ts'
import { ListFrame, usePagedList } from '../ui/list.tsx'
import { Empty, Page } from '../ui/page.tsx'
import { Money, Status, Time } from '../ui/values.tsx'
import { DecideTogether, ItemActions } from './review-actions.tsx'
import { ItemDetails } from './review-details.tsx'
import { countText, itemKey, kindOf, REVIEW_KINDS, totalOf } from './review-kinds.ts'
import { ASSIGNEES, ItemNote, NoteLine, useAssigned } from './review-note.tsx'

/** How often the queue is read. It is polled, because no event stream covers all kinds of items. */
const REFRESH_MS = 30_000

/** The items that wait for a decision, oldest first. Each item opens in place. */
export function ReviewPage() {
  const [opened, setOpened] = useUrlState('item')
  const { items, pages, isFiltered, readCount, isPart, isGone } = useQueue(opened)
  // The badge in the navigation shows the same counts.
  const counts = useReviewSummary().data?.counts ?? []
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
          This list covers only the {count(readCount)} items that have waited longest.
        </p>
      )}
      {isGone && (
        <p className="soft" role="status">
          The linked item no longer waits.
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
 * The items in the order and with the filter of the URL. The service lists the oldest first, of all assignees. So for
 * another order or an assignee further pages are read, and also to find the item that is to be open.
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
    /** Whether items that were not read may belong in this list. */
    isPart: isArranged && pages.hasNextPage && rows.length >= SOUGHT_MAX,
    /** Whether the item that is to be open no longer waits. */
    isGone: isLost && !pages.isPending && !isSought,
  }
}

/** The most items that are read to find an item or to sort the list. */
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

function Tabs({
  counts,
  children,
}: {
  readonly counts: readonly ReviewCount[]
  readonly children: ReactNode
}) {
  const [chosen, choose] = useUrlState('kind')
  const tabs = REVIEW_KINDS.flatMap(({ kind, code, tab: name }) => {
    const found = counts.find((each) => each.kind === kind)
    return found || code === chosen ? [{ code, name, text: found ? countText(found) : '0' }] : []
  })
  return (
    <fieldset className="filters">
      <legend className="hidden">Kind</legend>
      {[{ code: '', name: 'All', text: countText(totalOf(counts)) }, ...tabs].map(
        ({ code, name, text }) => (
          <button
            key={code}
            type="button"
            className={code === chosen ? 'chip set' : 'chip'}
            aria-pressed={code === chosen}
            onClick={() => choose(code)}
          >
            {name} <strong className="number">{text}</strong>
          </button>
        ),
      )}
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

function EmptyQueue({ isFiltered }: { readonly isFiltered: boolean }) {
  return (
    <Empty title={isFiltered ? 'Nothing like this waits' : 'Nothing waits for a decision'}>
      Payments without an account, held notifications and payments, conflicts, account openings
      without a result, payouts that need a decision, overdue settlements and failing endpoints
      appear here.
    </Empty>
  )
}

const STEPS: Readonly<Record<string, number>> = { j: 1, s: 1, k: -1 }

/**
 * `j` and `s` open the next item, `k` opens the previous one. `a`, `r` and `t` press the button of the open item whose
 * `data-key` has that letter.
 *
 * @param at the index of the open item; -1: none
 * @returns the ref of the list element
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
  /** Selects the item for a decision about several items; undefined: the caller cannot decide. */
  readonly onChoose: (() => void) | undefined
  readonly onToggle: () => void
  readonly onDecided: () => void
}

/** One item: a line with the main facts and, when it is open, all details with the actions that can end it. */
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

/** The subject of an item: the customer of its account with the status of the account, or the endpoint. */
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

/** The expected or recorded amount, and the paid or reported amount. */
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
