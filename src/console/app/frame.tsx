import { lazy, type ReactNode, Suspense, useEffect, useState } from 'react'
import { useLocation } from 'wouter'
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

/** What all pages have around them: the rail, the bar, and the colour of the mode. */
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
        // Made anew on each page, and so closed.
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

/** The pages that a phone has tabs for, as far as the viewer may open them: the first of these. Others are under "More". */
const TABS: readonly string[] = [
  '/',
  '/payments',
  '/accounts',
  '/review',
  '/webhooks',
  '/settlement',
  '/events',
]
const TABS_MAX = 5

/** The name of the console; in a portal the logo or the name that the settings state. */
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

/** What a business calls pages that have one thing for it. */
const PORTAL_TITLES: Readonly<Record<string, string>> = {
  Requests: 'API requests',
  Businesses: 'API keys',
  Access: 'Team',
}

function useTitles(): (title: string) => string {
  const isPortal = useOnlyBusiness() !== undefined
  return (title) => (isPortal && PORTAL_TITLES[title]) || title
}

/** How long the second key of a pair may take. */
const KEY_PAIR_MS = 1_000

/** The letters of pages whose first one is that of a page before. */
const LETTERS: Readonly<Record<string, string>> = {
  Payouts: 'u',
  Reconciliation: 'c',
  Requests: 'q',
  Access: 'x',
}

/**
 * `g` and then the letter of a page opens it, and `?` shows the keys, unless the viewer is typing.
 *
 * @returns the letter of each page that the viewer may open, and its title
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
      // A page gives the letter another meaning without the `g`.
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
  const counts = data?.counts ?? []
  const total = counts.reduce((sum, { count }) => sum + count, 0)
  if (total === 0) return null
  const isCut = counts.some(({ more }) => more)
  return (
    <span className="badge">
      {`${total}${isCut ? '+' : ''}`}
      <span className="hidden"> items wait</span>
    </span>
  )
}
