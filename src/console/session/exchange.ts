/** What a browser exchanges for a session. */
export type Credential = { readonly token: string } | { readonly code: string }

/** How a user may sign in. */
export interface SignInMethods {
  readonly oidc: { readonly name: string } | null
}

/**
 * Exchanges a credential for the session's cookie.
 *
 * @returns why it was refused; undefined: the user is signed in
 */
export async function signIn(credential: Credential): Promise<string | undefined> {
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

export async function readSignInMethods(): Promise<SignInMethods> {
  const response = await fetch('/console/sign-in-methods')
  return (await response.json()) as SignInMethods
}
