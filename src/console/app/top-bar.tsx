import { useQuery } from '@connectrpc/connect-query'
import { useQueryClient } from '@tanstack/react-query'
import { type KeyboardEvent, useDeferredValue, useEffect, useRef, useState } from 'react'
import { useLocation } from 'wouter'
import { navigate } from 'wouter/use-browser-location'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { ResultKind, type SearchResult } from '../../../gen/inflow/overview/v1/search_pb.ts'
import { naira } from '../format/money.ts'
import { useBusinessName } from '../session/business-names.ts'
import { useLive } from '../session/live.tsx'
import { useBranding, useMay, useSession } from '../session/session.tsx'
import { signOut } from '../session/sign-in.tsx'
import { useChooseScope, useHref, useShownObject, useViewScope } from '../session/view-scope.tsx'
import { dropDrafts } from '../ui/drafts.ts'
import { Icon } from '../ui/icons.tsx'
import { isTyping } from '../ui/keys.ts'
import { Popover } from '../ui/popover.tsx'
import { Time, useNow } from '../ui/values.tsx'
import { readTheme, setTheme, type Theme } from './theme.ts'

export function TopBar() {
  const branding = useBranding()
  return (
    <header className="top-bar">
      {branding?.logoPath && (
        <img className="logo in-bar" src={branding.logoPath} alt={branding.name} />
      )}
      <BusinessSwitcher />
      <ModeSwitch />
      <SearchBox />
      <Connection />
      <Account />
    </header>
  )
}

function ModeSwitch() {
  const mode = useViewScope().live ? '' : 'test'
  const choose = useChooseScope()
  return (
    <fieldset className="switch">
      <legend className="hidden">Mode</legend>
      {(['', 'test'] as const).map((value) => (
        <label key={value} className={mode === value ? 'on' : undefined}>
          <input
            type="radio"
            name="mode"
            className="hidden"
            checked={mode === value}
            onChange={() => choose({ mode: value })}
          />
          {value === '' ? 'Live' : 'Test'}
        </label>
      ))}
    </fieldset>
  )
}

function Connection() {
  const { state, isPaused, setPaused } = useLive()
  const now = useNow()
  if (state.kind === 'off') return null
  const text =
    state.kind === 'reconnecting'
      ? `reconnecting in ${Math.max(0, Math.ceil((state.atMs - now) / 1_000))} s`
      : state.kind
  return (
    <button
      type="button"
      className={`connection ${state.kind}`}
      aria-pressed={isPaused}
      title={isPaused ? 'Show payments as they arrive' : 'Pause'}
      onClick={() => setPaused(!isPaused)}
    >
      <Icon name={isPaused ? 'play' : 'dot'} size={12} />
      <span>{text}</span>
    </button>
  )
}

const THEMES: readonly Theme[] = ['system', 'light', 'dark']

function Account() {
  const { name, scopes, businessIds } = useSession()
  const [theme, choose] = useState(readTheme)
  const queries = useQueryClient()
  const leave = async () => {
    await signOut()
    queries.clear()
    dropDrafts()
    navigate('/console/sign-in')
  }
  const restriction = businessIds.length === 1 ? 'one business' : `${businessIds.length} businesses`
  return (
    <Popover
      kind="button quiet"
      label={
        <>
          <span className="hidden">Signed in as {name}</span>
          <span className="who" aria-hidden="true">
            <strong>{name}</strong>
            <span className="faint">{scopes.join(', ')}</span>
          </span>
        </>
      }
    >
      {businessIds.length > 0 && <p className="menu-note">Restricted to {restriction}</p>}
      <ul className="choices">
        {THEMES.map((each) => (
          <li key={each}>
            <button
              type="button"
              aria-pressed={each === theme}
              onClick={() => {
                setTheme(each)
                choose(each)
              }}
            >
              Theme: {each}
              {each === theme && <Icon name="check" size={14} />}
            </button>
          </li>
        ))}
        <li>
          <button type="button" onClick={() => void leave()}>
            Sign out
            <Icon name="out" size={14} />
          </button>
        </li>
      </ul>
    </Popover>
  )
}

/** The most businesses that the list shows; typing finds the others. */
const SHOWN_MAX = 20

/** Chooses the business that all pages show, or all of them. */
function BusinessSwitcher() {
  const { businessIds } = useSession()
  const scope = useViewScope()
  const shown = useShownObject()
  const choose = useChooseScope()
  const mayList = useMay()(BusinessService.method.listBusinesses)
  const businessId = shown?.businessId ?? scope.businessId
  const name = useBusinessName(businessId)
  if (!mayList || businessIds.length === 1) return <span className="business">{name}</span>
  const none = shown ? 'No business' : 'All businesses'
  return (
    <Popover label={businessId === '' ? none : name} isSet={businessId !== ''}>
      <Businesses onChoose={(business) => choose({ business })} />
    </Popover>
  )
}

/** All businesses, or those that match the typed text. They are read when the panel opens. */
function Businesses({ onChoose }: { readonly onChoose: (business: string) => void }) {
  const [typed, setTyped] = useState('')
  const query = useDeferredValue(typed.trim())
  const found = useQuery(
    BusinessService.method.listBusinesses,
    { query, pageSize: SHOWN_MAX },
    { placeholderData: (previous) => previous },
  )
  return (
    <>
      <input
        aria-label="Find a business"
        placeholder="Name, alias or id"
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
      />
      <ul className="choices">
        <li>
          <button type="button" onClick={() => onChoose('')}>
            All businesses
          </button>
        </li>
        {found.data?.businesses.map((business) => (
          <li key={business.id}>
            <button type="button" onClick={() => onChoose(business.id)}>
              {business.name} <span className="faint">{business.id}</span>
            </button>
          </li>
        ))}
      </ul>
    </>
  )
}

/** Searches by a session id, reference, account number, e-mail address or id. `/` or Ctrl K focuses the field. */
function SearchBox() {
  const { live, businessId } = useViewScope()
  const [typed, setTyped] = useState('')
  const [at, setAt] = useState(0)
  const [isOpen, setOpen] = useState(false)
  /** The text for which Enter was pressed before its results arrived. */
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
  // Results for another text are neither shown nor opened.
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

/** How long the viewer has to stop typing before a search starts. */
const SETTLED_MS = 150

function useSettled(text: string): string {
  const [settled, setSettled] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), SETTLED_MS)
    return () => clearTimeout(timer)
  }, [text])
  return settled
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

/** The kinds of results that open in the review queue, with the numbers of their review kinds. */
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
