import { lazy, type ReactNode, Suspense, useEffect, useState } from 'react'
import { useLocation } from 'wouter'
import { countText, totalOf } from '../pages/review-kinds.ts'
import { useReviewSummary } from '../session/review-summary.ts'
import { useBranding, useMay, useOnlyBusiness } from '../session/session.tsx'
import { useHref, useViewScope } from '../session/view-scope.tsx'
import { Icon } from '../ui/icons.tsx'
import { isModified, isTyping } from '../ui/keys.ts'
import { Popover } from '../ui/popover.tsx'
import { PageLink } from '../ui/values.tsx'
import { RAIL } from './pages.ts'
import { RAIL_NEEDS } from './rail-needs.ts'
import { TopBar } from './top-bar.tsx'

const VIEWERS_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone

const ShortcutHelp = lazy(() => import('./shortcut-help.tsx'))
const PauseBanner = lazy(() => import('./pause-banner.tsx'))

/** The frame of all pages: the rail, the bar, and the colour of the mode. */
export function Frame({ children }: { readonly children: ReactNode }) {
  const { live } = useViewScope()
  const [isHelpOpen, setHelpOpen] = useState(false)
  const pages = useRailKeys(() => setHelpOpen(true))
  const mayListPauses = useMay()(RAIL_NEEDS.Payouts)
  return (
    <div className={live ? 'frame' : 'frame test-mode'}>
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <Rail />
      <TopBar />
      <main id="content" tabIndex={-1}>
        {mayListPauses && (
          <Suspense>
            <PauseBanner />
          </Suspense>
        )}
        {children}
        <footer className="zone faint">Times are in {VIEWERS_ZONE}.</footer>
      </main>
      {isHelpOpen && (
        <Suspense>
          <ShortcutHelp pages={pages} onClose={() => setHelpOpen(false)} />
        </Suspense>
      )}
    </div>
  )
}

function Rail() {
  const [location] = useLocation()
  const may = useMay()
  const titleOf = useTitles()
  const pages = RAIL.filter(({ needs }) => may(needs))
  const tabs = new Set(
    TABS.filter((tab) => pages.some(({ path }) => path === tab)).slice(0, TABS_MAX),
  )
  const others = pages.filter(({ path }) => !tabs.has(path))
  const isAt = (path: string) => (path === '/' ? location === '/' : location.startsWith(path))
  const linkTo = ({ path, title, icon }: (typeof RAIL)[number], kind: string) => (
    <PageLink
      key={path}
      to={path}
      className={`rail-link ${kind} ${isAt(path) ? 'here' : ''}`}
      tooltip={titleOf(title)}
    >
      <Icon name={icon} />
      <span className="rail-title">{titleOf(title)}</span>
      {path === '/review' && <ReviewBadge />}
    </PageLink>
  )
  return (
    <nav className="rail" aria-label="Pages">
      <Brand />
      {pages.map((page) => linkTo(page, tabs.has(page.path) ? 'rail-tab' : ''))}
      {others.length > 0 && (
        // The key creates a new popover on each page, so that it is closed.
        <Popover
          key={location}
          kind={`rail-link rail-more ${others.some(({ path }) => isAt(path)) ? 'here' : ''}`}
          label={
            <>
              <Icon name="more" />
              <span className="rail-title">More</span>
            </>
          }
        >
          {others.map((page) => linkTo(page, 'rail-listed'))}
        </Popover>
      )}
    </nav>
  )
}

/** The pages that get a tab on a phone: the first of these that the viewer may open. Other pages are under "More". */
const TABS = '/ /payments /accounts /review /webhooks /settlement /events'.split(' ')
const TABS_MAX = 5

/** The name of the console; in a portal, the logo or the name from the settings. */
function Brand() {
  const branding = useBranding()
  const name = branding?.name ?? 'Inflow'
  if (!branding?.logoPath) return <span className="brand">{name}</span>
  return (
    <span className="brand">
      <img className="logo" src={branding.logoPath} alt={name} />
    </span>
  )
}

/** The titles of pages in the portal of a business, which show only its own objects. */
const PORTAL_TITLES: Readonly<Record<string, string>> = {
  Requests: 'API requests',
  Businesses: 'API keys',
  Access: 'Team',
}

function useTitles(): (title: string) => string {
  const isPortal = useOnlyBusiness() !== undefined
  return (title) => (isPortal && PORTAL_TITLES[title]) || title
}

/** How long the viewer may take to press the second key of a pair. */
const KEY_PAIR_MS = 1_000

/** The letters of pages whose initial is already taken by an earlier page. */
const LETTERS: Readonly<Record<string, string>> = {
  Payouts: 'u',
  Reconciliation: 'c',
  Requests: 'q',
  Access: 'x',
}

/**
 * `g` and then the letter of a page opens the page, and `?` shows the keys, unless the viewer is typing.
 *
 * @returns the letter and title of each page that the viewer may open
 */
function useRailKeys(onHelp: () => void): readonly (readonly [letter: string, title: string])[] {
  const [, navigate] = useLocation()
  const href = useHref()
  const may = useMay()
  const titleOf = useTitles()
  const pages = RAIL.filter(({ needs }) => may(needs)).map(({ path, title }) => {
    const letter = LETTERS[title] ?? title.charAt(0).toLowerCase()
    return { path, letter, title: titleOf(title) }
  })
  useEffect(() => {
    let startedMs = 0
    const onKey = (event: KeyboardEvent) => {
      if (isModified(event) || isTyping(event.target)) return
      if (event.key === '?') {
        onHelp()
        return
      }
      if (event.key === 'g') {
        startedMs = Date.now()
        return
      }
      if (Date.now() - startedMs > KEY_PAIR_MS) return
      startedMs = 0
      const page = pages.find(({ letter }) => letter === event.key)
      if (page === undefined) return
      // Without `g`, the letter has another meaning on the page.
      event.preventDefault()
      navigate(href(page.path))
    }
    window.addEventListener('keydown', onKey, { capture: true })
    return () => window.removeEventListener('keydown', onKey, { capture: true })
  })
  return pages.map(({ letter, title }) => [letter, title])
}

function ReviewBadge() {
  const { data } = useReviewSummary()
  const total = totalOf(data?.counts ?? [])
  if (total.count === 0) return null
  return (
    <span className="badge">
      {countText(total)}
      <span className="hidden"> items wait</span>
    </span>
  )
}
