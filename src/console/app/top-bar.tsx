import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { navigate } from 'wouter/use-browser-location'
import { signOut } from '../session/exchange.ts'
import { useLive } from '../session/live.tsx'
import { useSession } from '../session/session.tsx'
import { useChooseScope, useViewScope } from '../session/view-scope.ts'
import { useNow } from '../ui/clock.ts'
import { Popover } from '../ui/controls/popover.tsx'
import { Icon } from '../ui/icons.tsx'
import { BusinessSwitcher } from './business-switcher.tsx'
import { SearchBox } from './search-box.tsx'
import { readTheme, setTheme, type Theme } from './theme.ts'

export function TopBar() {
  return (
    <header className="top-bar">
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

/** The state of the live stream, and its pause. */
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
