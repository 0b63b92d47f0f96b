import { useEffect, useState } from 'react'
import { useLocation } from 'wouter'
import { Button } from '../ui/button.tsx'
import { CommandLine } from '../ui/code.tsx'
import { type Credential, readSignInMethods, type SignInMethods, signIn } from './exchange.ts'

const ERROR = 'error='

/** Signs in by a token, by the code of a link, which is after the #, or by the provider of the company. */
export function SignIn({ onSignedIn }: { readonly onSignedIn: () => void }) {
  const [token, setToken] = useState('')
  const [fault, setFault] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  const [methods, setMethods] = useState<SignInMethods>()
  const [, navigate] = useLocation()
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
    // A code in the history could be found there.
    if (code !== '')
      window.history.replaceState(null, '', window.location.pathname + window.location.search)
    if (code.startsWith(ERROR)) setFault(decodeURIComponent(code.slice(ERROR.length)))
    else if (code !== '') void exchange({ code })
    readSignInMethods().then(setMethods, () => undefined)
  }, [])
  return (
    <main className="sign-in">
      <h1>Inflow</h1>
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
        On the machine of the service, this command makes a link that signs you in:
      </p>
      <CommandLine text="npx inflow console link" />
    </main>
  )
}

/** The page that asked for the sign-in; only a path of the console. */
function backPath(): string {
  const back = new URLSearchParams(window.location.search).get('back') ?? '/'
  return /^\/(?!\/)/.test(back) ? back : '/'
}
