import { Code, ConnectError, type Interceptor } from '@connectrpc/connect'
import { TransportProvider, useQuery } from '@connectrpc/connect-query'
import { createConnectTransport } from '@connectrpc/connect-web'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { Component, lazy, type ReactNode, Suspense, useState } from 'react'
import { Route, Router, Switch } from 'wouter'
import { navigate } from 'wouter/use-browser-location'
import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { takeResponse } from '../session/early-calls.ts'
import { LiveProvider } from '../session/live.tsx'
import { SessionContext } from '../session/session.tsx'
import { SignIn } from '../session/sign-in.tsx'
import { ShownObjectProvider } from '../session/view-scope.tsx'
import { Empty, Failure, Waiting } from '../ui/page.tsx'
import { Frame } from './frame.tsx'
import { BASE, INNER, RAIL, SIGN_IN } from './pages.ts'

/** Leads to the sign-in page, and from there back to the present one. @param hasEnded the viewer was signed in */
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

export function App() {
  const [queries] = useState(createQueries)
  const [transport] = useState(() => createTransport(toSignIn))
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

const RAIL_PAGES = RAIL.map(({ path, load }) => ({ path, component: lazy(load) }))
const INNER_PAGES = INNER.map(([path, load]) => [path, lazy(load)] as const)

function Pages() {
  return (
    <FaultBoundary>
      <Suspense fallback={<Waiting rows={12} />}>
        <Switch>
          {RAIL_PAGES.map(({ path, component }) => (
            <Route key={path} path={path} component={component} />
          ))}
          {INNER_PAGES.map(([path, Inner]) => (
            <Route key={path} path={path}>
              {/* Another object is another page: no dialog about one stays open over the next. */}
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

/** Shows what a page failed with in its place, so that the frame still works. */
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

/** For a call without a stream, in milliseconds. */
const CALL_MS = 30_000

/**
 * Calls the service that served the page, with the session's cookie.
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

/** Reads are repeated where that may help; nothing else is. */
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
  const read = useQuery(
    SessionService.method.getCaller,
    {},
    { staleTime: Number.POSITIVE_INFINITY },
  )
  if (read.error) return <Failure error={read.error} onRetry={() => void read.refetch()} />
  const { caller, service } = read.data ?? {}
  if (caller === undefined) return <Waiting />
  return <SessionContext value={{ caller, service }}>{children}</SessionContext>
}
