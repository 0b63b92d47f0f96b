import { useQuery } from '@connectrpc/connect-query'
import { type KeyboardEvent, useEffect, useRef, useState } from 'react'
import { useLocation } from 'wouter'
import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { ResultKind, type SearchResult } from '../../../gen/inflow/overview/v1/search_pb.ts'
import { naira } from '../format/money.ts'
import { useHref, useViewScope } from '../session/view-scope.tsx'
import { Icon } from '../ui/icons.tsx'
import { isTyping } from '../ui/keys.ts'
import { Time } from '../ui/values.tsx'

/** How long the viewer has to pause in typing before a search starts. */
const SETTLED_MS = 150

function useSettled(text: string): string {
  const [settled, setSettled] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), SETTLED_MS)
    return () => clearTimeout(timer)
  }, [text])
  return settled
}

/** Finds anything by what is at hand: a session, reference, number, e-mail or id. `/` or Ctrl K focuses it. */
export function SearchBox() {
  const { live, businessId } = useViewScope()
  const [typed, setTyped] = useState('')
  const [at, setAt] = useState(0)
  const [isOpen, setOpen] = useState(false)
  /** The text for which Enter was pressed before its results came. */
  const [entered, setEntered] = useState('')
  const [, navigate] = useLocation()
  const href = useHref()
  const input = useFocusKey()
  const text = typed.trim()
  const query = useSettled(text)
  const isSearched = text.length > 2
  const found = useQuery(
    OverviewService.method.search,
    { query, live, businessId },
    { enabled: query.length > 2 },
  )
  // Those of another text are neither shown nor opened.
  const isFound = isSearched && query === text && !found.isFetching
  const results = isFound ? (found.data?.results ?? []) : []
  const open = (index: number) => {
    const result = results[index]
    if (!result) return
    const reviewed = REVIEWED[result.kind]
    const item = `${reviewed}-${result.live ? 'live' : 'test'}-${result.id}`
    const query = result.kind === ResultKind.CUSTOMER ? { email: result.id } : {}
    navigate(href(PATHS[result.kind]?.(result) ?? '/review', reviewed ? { item } : query))
    setOpen(false)
    setTyped('')
    input.current?.blur()
  }
  useEffect(() => {
    if (entered === '' || !isFound) return
    setEntered('')
    if (entered === text) open(0)
  })
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter') isFound ? open(at) : setEntered(text)
    else if (event.key === 'Escape') input.current?.blur()
    else if (event.key === 'ArrowDown') setAt(Math.min(results.length - 1, at + 1))
    else if (event.key === 'ArrowUp') setAt(Math.max(0, at - 1))
    else return
    event.preventDefault()
  }
  return (
    <search className="search">
      <Icon name="search" size={14} />
      <input
        ref={input}
        role="combobox"
        aria-label="Search"
        aria-expanded={isOpen && results.length > 0}
        aria-controls="search-results"
        aria-activedescendant={isOpen && results.length > 0 ? `search-${at}` : undefined}
        placeholder="Name, phone, amount, payer, reference, id"
        value={typed}
        maxLength={254}
        onChange={(event) => {
          setTyped(event.target.value)
          setAt(0)
          setEntered('')
          setOpen(true)
        }}
        onFocus={() => setOpen(true)}
        onBlur={() => {
          setOpen(false)
          setEntered('')
        }}
        onKeyDown={onKeyDown}
      />
      <kbd>/</kbd>
      {isOpen && isSearched && (
        <div
          className="popup search-results"
          id="search-results"
          role="listbox"
          aria-label="Results"
        >
          {results.length === 0 && (
            <p className="faint">
              {isFound ? (found.error ? 'The search failed' : nothingFound(live)) : 'Searching…'}
            </p>
          )}
          {isFound && found.data?.searchedSince && (
            <p className="faint">
              Parts are looked for since <Time at={found.data.searchedSince} />; a whole id, number
              or address finds older ones.
            </p>
          )}
          {results.map((result, index) => (
            <div
              key={`${result.kind} ${result.id} ${result.businessId}`}
              id={`search-${index}`}
              role="option"
              tabIndex={-1}
              aria-selected={index === at}
              onMouseDown={(event) => {
                event.preventDefault()
                open(index)
              }}
            >
              <span>
                {result.kind === ResultKind.CUSTOMER && 'Customer '}
                {result.title}
                {result.amountMinor > 0n && ` · ${naira(result.amountMinor)}`}
              </span>
              <span className="faint">{result.subtitle}</span>
            </div>
          ))}
        </div>
      )}
    </search>
  )
}

function nothingFound(live: boolean): string {
  return `Nothing found in ${live ? 'live' : 'test'} mode`
}

function useFocusKey() {
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => {
    const onKey = (event: globalThis.KeyboardEvent) => {
      const isSlash = event.key === '/' && !isTyping(event.target)
      const isCtrlK = event.key === 'k' && (event.ctrlKey || event.metaKey)
      if (!isSlash && !isCtrlK) return
      event.preventDefault()
      input.current?.focus()
      input.current?.select()
    }
    window.addEventListener('keydown', onKey)
    return () => window.removeEventListener('keydown', onKey)
  }, [])
  return input
}

/** What is opened in the review queue: the numbers of its kinds. */
const REVIEWED: Readonly<Record<number, number>> = {
  [ResultKind.UNMATCHED_PAYMENT]: 1,
  [ResultKind.NOTIFICATION]: 2,
  [ResultKind.PAYMENT_CONFLICT]: 3,
}

const PATHS: Readonly<Record<number, (result: SearchResult) => string>> = {
  [ResultKind.TRANSACTION]: ({ id }) => `/payments/${id}`,
  [ResultKind.ACCOUNT]: ({ businessId, reference }) => `/accounts/${businessId}/${reference}`,
  [ResultKind.EVENT]: ({ id }) => `/events/${id}`,
  [ResultKind.DELIVERY]: ({ id }) => `/webhooks/deliveries/${id}`,
  [ResultKind.ENDPOINT]: ({ id }) => `/webhooks/${id}`,
  [ResultKind.BUSINESS]: ({ id }) => `/businesses/${id}`,
  [ResultKind.SETTLEMENT]: ({ id }) => `/settlement/${id}`,
  [ResultKind.PAYOUT]: ({ id }) => `/payouts/${id}`,
  [ResultKind.TOKEN]: () => '/access',
  [ResultKind.CUSTOMER]: ({ businessId }) => `/accounts/customer/${businessId}`,
  [ResultKind.KEY]: ({ businessId }) => `/businesses/${businessId}`,
}
