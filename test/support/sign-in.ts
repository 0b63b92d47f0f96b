import type { DescService } from '@bufbuild/protobuf'
import { type Client, createClient, type Interceptor } from '@connectrpc/connect'
import { createConnectTransport } from '@connectrpc/connect-node'
import type { TestService } from './service.ts'

type Origin = Pick<TestService, 'httpUrl'>

/** The headers of a request by one of the console's own pages. */
export const ownPage = ({ httpUrl }: Origin) => ({ origin: httpUrl })

/** Posts a credential to be exchanged for a session, as the sign-in page does. */
export function postSession(
  service: Origin,
  body: unknown,
  headers: Readonly<Record<string, string>> = ownPage(service),
): Promise<Response> {
  return fetch(`${service.httpUrl}/console/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
}

/** Signs in and returns the cookie: `inflow-session=…`. */
export async function signIn(
  service: Origin,
  credential: { readonly token: string } | { readonly code: string },
): Promise<string> {
  const response = await postSession(service, credential)
  if (response.status !== 204) throw new Error(`signing in failed: ${await response.text()}`)
  return cookieOf(response)
}

/** The cookie that a response sets, without its attributes. */
export function cookieOf(response: Response): string {
  return response.headers.getSetCookie()[0]?.split(';', 1)[0] ?? ''
}

/** A client of the HTTP server with a cookie, by default from one of the console's own pages. */
export function browserClient<S extends DescService>(
  service: Origin,
  desc: S,
  cookie: string,
  headers: Readonly<Record<string, string>> = ownPage(service),
): Client<S> {
  const send: Interceptor = (next) => (request) => {
    for (const [name, value] of Object.entries({ cookie, ...headers })) {
      request.header.set(name, value)
    }
    return next(request)
  }
  const { httpUrl: baseUrl } = service
  return createClient(
    desc,
    createConnectTransport({ baseUrl, httpVersion: '1.1', interceptors: [send] }),
  )
}
