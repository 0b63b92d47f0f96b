import { Code, ConnectError, type Interceptor, type Transport } from '@connectrpc/connect'
import { createQueryOptions, TransportProvider, useTransport } from '@connectrpc/connect-query'
import { createConnectTransport } from '@connectrpc/connect-web'
import { QueryClient, QueryClientProvider, useQuery } from '@tanstack/react-query'
import { Component, lazy, type ReactNode, Suspense, useLayoutEffect, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { Route, Router, Switch } from 'wouter'
import { navigate } from 'wouter/use-browser-location'
import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { CALL_MS, takeResponse } from '../session/early-calls.ts'
import { LiveProvider } from '../session/live.tsx'
import { SessionContext } from '../session/session.tsx'
import { SignIn } from '../session/sign-in.tsx'
import { ShownObjectProvider } from '../session/view-scope.tsx'
import { Empty, Failure, Waiting } from '../ui/page.tsx'
import { Frame } from './frame.tsx'
import { BASE, INNER, type LoadedPage, OPENED_PATH, openedPage, RAIL, SIGN_IN } from './pages.ts'
import { showColor } from './theme.ts'
import '../styles/tokens.css'
import '../styles/base.css'
import '../styles/frame.css'
import '../styles/controls.css'
import '../styles/lists.css'
import '../styles/pages.css'
import '../styles/overview.css'
import '../styles/webhooks.css'
import '../styles/payment.css'
import '../styles/events.css'
import '../styles/review.css'
import '../styles/settlement.css'
import '../styles/reconciliation.css'

/** Opens the sign-in page, which leads back to the current page. @param hasEnded whether the viewer was signed in */
function toSignIn(hasEnded: boolean): void {
  const { pathname, search } = window.location
  if (pathname === BASE + SIGN_IN) return
  const back = pathname.slice(BASE.length) + search
  const query = new URLSearchParams({
    ...(back !== '' && back !== '/' && { back }),
    ...(hasEnded && { ended: '1' }),
  })
  navigate(`${BASE}${SIGN_IN}${query.size === 0 ? '' : `?${query}`}`)
}

/** How long the console waits for the first data before it draws. */
const FIRST_DRAW_MS = 500

/** Draws the console when the caller is known and the opened page has loaded: drawing it in parts would take longer. */
export async function drawConsole(): Promise<void> {
  const queries = createQueries()
  const transport = createTransport(toSignIn)
  const caller = OPENED_PATH !== SIGN_IN && queries.prefetchQuery(callerQuery(transport))
  const waited = new Promise((resolve) => setTimeout(resolve, FIRST_DRAW_MS))
  await Promise.race([Promise.all([openedPage, caller]), waited])
  const root = document.getElementById('root')
  if (root) createRoot(root).render(<App queries={queries} transport={transport} />)
}

const callerQuery = (transport: Transport) => ({
  ...createQueryOptions(SessionService.method.getCaller, {}, { transport }),
  staleTime: Number.POSITIVE_INFINITY,
})

function App({ queries, transport }: { queries: QueryClient; transport: Transport }) {
  return (
    <TransportProvider transport={transport}>
      <QueryClientProvider client={queries}>
        <Router base={BASE}>
          <Switch>
            <Route path={SIGN_IN}>
              <SignIn onSignedIn={() => queries.clear()} />
            </Route>
            <Route>
              <SessionProvider>
                <ShownObjectProvider>
                  <LiveProvider>
                    <Frame>
                      <Pages />
                    </Frame>
                  </LiveProvider>
                </ShownObjectProvider>
              </SessionProvider>
            </Route>
          </Switch>
        </Router>
      </QueryClientProvider>
    </TransportProvider>
  )
}

const componentOf = ({ component, load }: LoadedPage) =>
  component ?? lazy(async () => ({ default: await load() }))

function Pages() {
  const [pages] = useState(() => ({
    rail: RAIL.map(({ path, page }) => ({ path, component: componentOf(page) })),
    inner: INNER.map(([path, page]) => [path, componentOf(page)] as const),
  }))
  return (
    <FaultBoundary>
      <Suspense fallback={<Waiting rows={12} />}>
        <Switch>
          {pages.rail.map(({ path, component }) => (
            <Route key={path} path={path} component={component} />
          ))}
          {pages.inner.map(([path, Inner]) => (
            <Route key={path} path={path}>
              {/* The key makes each object a new page, so that no dialog stays open over another object. */}
              {(params) => <Inner key={Object.values(params).join(' ')} />}
            </Route>
          ))}
          <Route>
            <Empty title="There is no such page">Choose one on the left, or search.</Empty>
          </Route>
        </Switch>
      </Suspense>
    </FaultBoundary>
  )
}

/** Shows the failure of a page in place of the page, so that the frame still works. */
class FaultBoundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: undefined as unknown }

  static getDerivedStateFromError(error: unknown) {
    return { error }
  }

  override render(): ReactNode {
    if (this.state.error === undefined) return this.props.children
    return <Failure error={this.state.error} onRetry={() => window.location.reload()} />
  }
}

/**
 * Calls the service that served the page, with the cookie of the session.
 *
 * @param onSignedOut called when a call is refused because the session has ended
 */
function createTransport(onSignedOut: (hasEnded: boolean) => void) {
  let isSignedIn = false
  const noticeSignOut: Interceptor = (next) => async (request) => {
    try {
      const response = await next(request)
      isSignedIn = true
      return response
    } catch (error) {
      if (ConnectError.from(error).code === Code.Unauthenticated) onSignedOut(isSignedIn)
      throw error
    }
  }
  return createConnectTransport({
    baseUrl: window.location.origin,
    useBinaryFormat: true,
    interceptors: [noticeSignOut],
    defaultTimeoutMs: CALL_MS,
    fetch: async (input, init) =>
      (await takeResponse(`${input}`, init?.body)) ??
      fetch(input, { ...init, credentials: 'same-origin' }),
  })
}

/** Reads are retried after errors that may be temporary; changes are never retried. */
function createQueries(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 5_000,
        gcTime: 60_000,
        refetchOnWindowFocus: false,
        retry: (failures, error) =>
          failures < 2 && ConnectError.from(error).code === Code.Unavailable,
      },
      mutations: { retry: false },
    },
  })
}

function SessionProvider({ children }: { readonly children: ReactNode }) {
  const read = useQuery(callerQuery(useTransport()))
  const { caller, service, branding } = read.data ?? {}
  const color = branding?.color ?? ''
  useLayoutEffect(() => showColor(color), [color])
  if (read.error) return <Failure error={read.error} onRetry={() => void read.refetch()} />
  if (caller === undefined) return <Waiting />
  return <SessionContext value={{ caller, service, branding }}>{children}</SessionContext>
}
