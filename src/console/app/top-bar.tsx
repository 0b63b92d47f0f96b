import { useQuery } from '@connectrpc/connect-query'
import { useQueryClient } from '@tanstack/react-query'
import { useDeferredValue, useState } from 'react'
import { navigate } from 'wouter/use-browser-location'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { useBusinessName } from '../session/business-names.ts'
import { useLive } from '../session/live.tsx'
import { useBranding, useMay, useSession } from '../session/session.tsx'
import { signOut } from '../session/sign-in.tsx'
import { useChooseScope, useShownObject, useViewScope } from '../session/view-scope.tsx'
import { useNow } from '../ui/clock.ts'
import { dropDrafts } from '../ui/drafts.ts'
import { Icon } from '../ui/icons.tsx'
import { Popover } from '../ui/popover.tsx'
import { SearchBox } from './search-box.tsx'
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

/** The most that the list shows; typing finds the others. */
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

/** All businesses, or those that match what is typed. They are read when the panel opens. */
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
