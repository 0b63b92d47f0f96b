import { TransportProvider } from '@connectrpc/connect-query'
import { QueryClientProvider } from '@tanstack/react-query'
import { Component, type ReactNode, Suspense, useState } from 'react'
import { Route, Router, Switch } from 'wouter'
import { navigate } from 'wouter/use-browser-location'
import { LiveProvider } from '../live/live.tsx'
import { SessionProvider } from '../session/session.tsx'
import { ShownObjectProvider } from '../session/shown-object.tsx'
import { SignIn } from '../session/sign-in.tsx'
import { createQueries, createTransport } from '../session/transport.ts'
import { Empty } from '../ui/lists/empty.tsx'
import { Failure } from '../ui/lists/failure.tsx'
import { Waiting } from '../ui/lists/waiting.tsx'
import { Frame } from './frame.tsx'
import { INNER, RAIL } from './pages.ts'

/** Where the service serves the console. */
const BASE = '/console'
const SIGN_IN = '/sign-in'

/** Leads to the sign-in page, and from there back to the present one. */
function toSignIn(): void {
  const { pathname, search } = window.location
  if (pathname === BASE + SIGN_IN) return
  const back = pathname.slice(BASE.length) + search
  const query = back === '' || back === '/' ? '' : `?${new URLSearchParams({ back })}`
  navigate(`${BASE}${SIGN_IN}${query}`)
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

function Pages() {
  return (
    <FaultBoundary>
      <Suspense fallback={<Waiting rows={12} />}>
        <Switch>
          {RAIL.map(({ path, component }) => (
            <Route key={path} path={path} component={component} />
          ))}
          {INNER.map(([path, Inner]) => (
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
