import { useEffect, useState } from 'react'
import { useLocation } from 'wouter'
import { Button, CommandLine } from '../ui/button.tsx'
import { forgetFirstCalls } from './early-calls.ts'

const ERROR = 'error='

/** The reasons of a failed sign-in, by the code in the URL. The URL has no text, because anybody could write one. */
const FAULTS: Readonly<Record<string, string>> = {
  oidc_expired: 'The sign-in took too long; begin again',
  oidc_denied: 'The provider refused the sign-in',
  oidc_failed: 'The provider’s response was not valid; begin again',
  oidc_no_access:
    'You are known to the provider, but have no access to Inflow; ask your administrator',
  oidc_unavailable: 'The provider does not respond; try again shortly',
  rate_limited: 'There were too many attempts; try again in a minute',
}

/** Signs in with a token, with the code in the fragment of a link, or through the OpenID Connect provider. */
export function SignIn({ onSignedIn }: { readonly onSignedIn: () => void }) {
  const [token, setToken] = useState('')
  const [fault, setFault] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  const [methods, setMethods] = useState<SignInMethods>()
  const [, navigate] = useLocation()
  const hasEnded = new URLSearchParams(window.location.search).has('ended')
  const exchange = async (credential: Credential) => {
    setBusy(true)
    const refused = await signIn(credential).catch(() => 'The service cannot be reached')
    setBusy(false)
    setFault(refused)
    if (refused !== undefined) return
    onSignedIn()
    navigate(backPath(), { replace: true })
  }
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, for the link that opened the page
  useEffect(() => {
    document.title = 'Sign in · Inflow'
    const code = window.location.hash.slice(1)
    // Removes the code from the history of the browser.
    if (code !== '')
      window.history.replaceState(null, '', window.location.pathname + window.location.search)
    if (code.startsWith(ERROR)) setFault(FAULTS[code.slice(ERROR.length)] ?? 'The sign-in failed')
    else if (code !== '') void exchange({ code })
    readSignInMethods().then(setMethods, () => undefined)
  }, [])
  return (
    <main className="sign-in">
      <h1>Inflow</h1>
      {hasEnded && (
        <p role="status">Your session has ended. Sign in again to continue where you were.</p>
      )}
      <form
        onSubmit={(event) => {
          event.preventDefault()
          void exchange({ token: token.trim() })
        }}
      >
        <label className="field">
          Token
          <input
            type="password"
            autoComplete="current-password"
            required
            placeholder="it_…"
            value={token}
            onChange={(event) => setToken(event.target.value)}
          />
        </label>
        {fault !== undefined && (
          <p className="fault" role="alert">
            {fault}
          </p>
        )}
        <Button type="submit" kind="primary" busy={isBusy}>
          Sign in
        </Button>
      </form>
      {methods?.oidc && (
        <a className="button" href="/console/oidc">
          Sign in with {methods.oidc.name}
        </a>
      )}
      <p className="faint">
        If a link brought you here, it has ended: ask for a new one where you got it. On the machine
        of the service, this command makes a link that signs you in:
      </p>
      <CommandLine text="inflow console link" />
    </main>
  )
}

/** The page to which sign-in returns; only paths of the console are accepted. */
function backPath(): string {
  const back = new URLSearchParams(window.location.search).get('back') ?? '/'
  return /^\/(?!\/)/.test(back) ? back : '/'
}

type Credential = { readonly token: string } | { readonly code: string }

interface SignInMethods {
  readonly oidc: { readonly name: string } | null
}

/**
 * Exchanges a credential for the session's cookie.
 *
 * @returns the reason of a refusal; undefined: the user is signed in
 */
async function signIn(credential: Credential): Promise<string | undefined> {
  forgetFirstCalls()
  const response = await fetch('/console/session', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(credential),
  })
  if (response.ok) return undefined
  const body = (await response.json().catch(() => ({}))) as { readonly message?: string }
  return body.message ?? `The service responded with ${response.status}`
}

export async function signOut(): Promise<void> {
  await fetch('/console/session', { method: 'DELETE' })
}

async function readSignInMethods(): Promise<SignInMethods> {
  const response = await fetch('/console/sign-in-methods')
  return (await response.json()) as SignInMethods
}
