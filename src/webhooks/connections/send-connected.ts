import { LRUCache } from 'lru-cache'
import type { Pool } from 'pg'
import type { Clock } from '../../core/clock.ts'
import type { Encrypter } from '../../crypto/encryption.ts'
import type { Destination } from '../sender/connect.ts'
import { failed, type HttpClient, type Outcome } from '../sender/http-client.ts'
import {
  type BasicAuthentication,
  type Connection,
  decryptConnection,
  type OAuth2Client,
} from './connection.ts'

/** Posts a request with the headers of its connection. The headers of the signature come last and take precedence. */
type SendConnected = (
  connection: Connection,
  to: Omit<Destination, 'certificate'>,
  signed: Record<string, string>,
  body: Buffer,
) => Promise<Outcome>

const UNAUTHORIZED = 401

export function createConnectedSender(httpClient: HttpClient, clock: Clock): SendConnected {
  const tokens = createAccessTokens(httpClient, clock)
  return async (connection, to, signed, body) => {
    const { authentication, certificate } = connection
    const post = (token?: string): Promise<Outcome> => {
      const headers = { ...connectionHeaders(connection, token), ...signed }
      return httpClient.post(certificate ? { ...to, certificate } : to, headers, body)
    }
    if (authentication?.method !== 'oauth2') return post()
    const startedMs = clock.now()
    const first = await tokens.find(to.endpointId, authentication)
    if ('error' in first) return failed(first.error)
    const outcome = await post(first.token)
    if (outcome.status !== UNAUTHORIZED) return outcome
    // Retry once. If the receiver refuses a new token, too, it refuses the delivery.
    tokens.forget(to.endpointId, first.token)
    // An attempt that outlasts its lease is sent a second time by another instance.
    if (clock.now() - startedMs > httpClient.timeoutMs / 2) return outcome
    const second = await tokens.find(to.endpointId, authentication)
    if ('error' in second) return failed(second.error)
    return second.token === first.token ? outcome : post(second.token)
  }
}

/**
 * The headers that a connection adds to a request, with names in lower case.
 *
 * @param accessToken present if the connection authenticates with OAuth 2.0
 */
export function connectionHeaders(
  { headers, authentication }: Connection,
  accessToken?: string,
): Record<string, string> {
  const added = Object.fromEntries(headers.map(({ name, value }) => [name.toLowerCase(), value]))
  if (authentication?.method === 'basic') added['authorization'] = basic(authentication)
  if (accessToken !== undefined) added['authorization'] = `Bearer ${accessToken}`
  return added
}

function basic({ username, password }: Omit<BasicAuthentication, 'method'>): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
}

/** An access token, or the reason why there is none, which is shown to users. */
type AccessToken = { readonly token: string } | { readonly error: string }

/** The most endpoints whose tokens are kept. */
const TOKENS_MAX = 1_000

/** The longest that a request for a token takes; less if the lease is short. */
const TOKEN_TIMEOUT_MS = 5_000

const TOKEN_BYTES_MAX = 16_384

/** How long a token is valid if its response does not say, and the longest time for which a token is kept. */
const EXPIRES_DEFAULT_SECONDS = 300

const EXPIRES_MAX_SECONDS = 86_400

/** A token is not used in the last 30 seconds before it expires, or in the second half of a shorter life. */
const EARLY_SECONDS = 30

const TOKEN = /^[\x21-\x7e]+$/

interface Known {
  readonly client: string
  readonly token: string
  readonly untilMs: number
}

/** Obtains access tokens of endpoints, and keeps them until shortly before they expire. */
function createAccessTokens(httpClient: HttpClient, clock: Clock) {
  const known = new LRUCache<string, Known>({ max: TOKENS_MAX })
  const inProgress = new Map<string, Promise<AccessToken>>()
  const obtain = async (endpointId: string, client: OAuth2Client, identity: string) => {
    const requestedMs = clock.now()
    const obtained = await requestToken(httpClient, endpointId, client)
    if ('error' in obtained) return obtained
    const { token, expiresSeconds } = obtained
    const usedSeconds = Math.max(expiresSeconds - EARLY_SECONDS, expiresSeconds / 2)
    const untilMs = requestedMs + usedSeconds * 1_000
    known.set(endpointId, { client: identity, token, untilMs })
    return { token }
  }
  return {
    async find(endpointId: string, client: OAuth2Client): Promise<AccessToken> {
      const identity = JSON.stringify(client)
      const found = known.get(endpointId)
      if (found?.client === identity && clock.now() < found.untilMs) return { token: found.token }
      // Deliveries that need a token at the same time share one request.
      const key = `${endpointId} ${identity}`
      const pending = inProgress.get(key)
      if (pending) return pending
      const request = obtain(endpointId, client, identity).finally(() => inProgress.delete(key))
      inProgress.set(key, request)
      return request
    },
    /** Called if the receiver refused the token. The next `find` obtains another token. */
    forget(endpointId: string, token: string): void {
      if (known.get(endpointId)?.token === token) known.delete(endpointId)
    },
  }
}

/** Requests a token by the client credentials grant of RFC 6749. The same addresses are allowed as for webhooks. */
async function requestToken(
  httpClient: HttpClient,
  endpointId: string,
  { tokenUrl, clientId, clientSecret, scope, audience, credentialsInBody }: OAuth2Client,
): Promise<{ readonly token: string; readonly expiresSeconds: number } | { error: string }> {
  const oauth = await import('oauth4webapi')
  const timeoutMs = Math.min(TOKEN_TIMEOUT_MS, httpClient.timeoutMs / 3)
  const bounds = { timeoutMs, keptBytes: TOKEN_BYTES_MAX }
  const server = { issuer: tokenUrl, token_endpoint: tokenUrl }
  const client = { client_id: clientId }
  const authenticate = credentialsInBody
    ? oauth.ClientSecretPost(clientSecret)
    : oauth.ClientSecretBasic(clientSecret)
  const parameters = { ...(scope !== '' && { scope }), ...(audience !== '' && { audience }) }
  let outcome: Outcome | undefined
  const response = await oauth.clientCredentialsGrantRequest(
    server,
    client,
    authenticate,
    parameters,
    {
      // The URL was checked when the endpoint was set up, and the HTTP client checks addresses.
      [oauth.allowInsecureRequests]: true,
      headers: { 'user-agent': 'Inflow-Webhooks/1' },
      async [oauth.customFetch](url, { headers, body }) {
        const to = { endpointId: `${endpointId} token`, url, concurrency: 1 }
        outcome = await httpClient.post(to, headers, `${body}`, bounds)
        // Some servers send JSON under another content type.
        return Response.json(parse(outcome.responseBody), {
          status: outcome.error === '' ? 200 : 400,
        })
      },
    },
  )
  try {
    const read = await oauth.processClientCredentialsResponse(server, client, response)
    const {
      access_token: token,
      token_type: type,
      expires_in: stated = EXPIRES_DEFAULT_SECONDS,
    } = read
    if (type !== 'bearer' || !TOKEN.test(token)) throw new Error(`a token of type ${type}`)
    return { token, expiresSeconds: Math.min(stated, EXPIRES_MAX_SECONDS) }
  } catch (error) {
    if (outcome === undefined || outcome.error === '') {
      return { error: 'no access token: the response has no bearer token' }
    }
    // Only the standard error code of a refusal is shown, because the rest may repeat secrets of the request.
    const code = error instanceof oauth.ResponseBodyError ? error.error : ''
    const isCode = /^[a-z_]{1,50}$/.test(code)
    return { error: `no access token: ${outcome.error}${isCode ? ` (${code})` : ''}` }
  }
}

/** @returns the value of a JSON text; an empty object if the text is not JSON */
function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}

/** The most endpoints whose connections are kept decrypted. */
const CONNECTIONS_MAX = 1_000

interface Loaded {
  readonly version: number
  readonly connection: Connection | undefined
}

/** Returns the connection of an endpoint, at a version or a later one. */
export type LoadConnection = (
  endpointId: string,
  version: number,
) => Promise<Connection | undefined>

/** Reads connections once for each version; endpoints that never had a connection cost nothing. */
export function createLoadConnection(pool: Pool, encrypter: Encrypter): LoadConnection {
  const known = new LRUCache<string, Loaded>({ max: CONNECTIONS_MAX })
  return async (endpointId, version) => {
    if (version === 0) return undefined
    const found = known.get(endpointId)
    if (found && found.version >= version) return found.connection
    const read = await readConnection(pool, encrypter, endpointId)
    known.set(endpointId, read)
    return read.connection
  }
}

async function readConnection(pool: Pool, encrypter: Encrypter, id: string): Promise<Loaded> {
  const { rows } = await pool.query<{ version: number; encrypted: Buffer | null }>({
    name: 'webhook-connection',
    text: `select connection_version as version, connection_encrypted as encrypted
      from webhook_endpoint where id = $1`,
    values: [id],
  })
  const { version = 0, encrypted = null } = rows[0] ?? {}
  return {
    version,
    connection: encrypted ? decryptConnection(encrypter, id, encrypted) : undefined,
  }
}
