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

/** Posts a request with what its connection adds. The headers of the signature come last: they win. */
export type SendConnected = (
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
    const first = await tokens.find(to.endpointId, authentication)
    if ('error' in first) return failed(first.error)
    const outcome = await post(first.token)
    if (outcome.status !== UNAUTHORIZED) return outcome
    // Retry once: a receiver that refuses a new token too refuses the delivery.
    tokens.forget(to.endpointId, first.token)
    const second = await tokens.find(to.endpointId, authentication)
    if ('error' in second) return failed(second.error)
    return second.token === first.token ? outcome : post(second.token)
  }
}

/**
 * The headers that a connection adds to a request, with names in lower case.
 *
 * @param accessToken if it authenticates by OAuth 2.0
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

/** An access token, or why there is none: shown to users. */
type AccessToken = { readonly token: string } | { readonly error: string }

/** Obtains access tokens, and keeps them until shortly before they expire. */
interface AccessTokens {
  /** @param endpointId the endpoint that the client is for */
  find(endpointId: string, client: OAuth2Client): Promise<AccessToken>
  /** The receiver refused the token: the next `find` obtains another one. */
  forget(endpointId: string, token: string): void
}

/** The most endpoints whose tokens are kept. */
const TOKENS_MAX = 1_000

/** Two requests for tokens and two webhooks together take less than a lease. */
const BOUNDS = { timeoutMs: 5_000, keptBytes: 16_384 }

/** If a response does not state how long its token is valid, and the longest time that one is kept. */
const EXPIRES_DEFAULT_SECONDS = 300

const EXPIRES_MAX_SECONDS = 86_400

/** A token is not used in this time before it expires, or in the second half of a short life. */
const EARLY_SECONDS = 30

const TOKEN = /^[\x21-\x7e]+$/

interface Known {
  readonly client: string
  readonly token: string
  readonly untilMs: number
}

function createAccessTokens(httpClient: HttpClient, clock: Clock): AccessTokens {
  const known = new LRUCache<string, Known>({ max: TOKENS_MAX })
  const inProgress = new Map<string, Promise<AccessToken>>()
  const obtain = async (endpointId: string, client: OAuth2Client, identity: string) => {
    const requestedMs = clock.now()
    const obtained = readToken(await request(httpClient, endpointId, client))
    if ('error' in obtained) return obtained
    const { token, expiresSeconds } = obtained
    const usedSeconds = Math.max(expiresSeconds - EARLY_SECONDS, expiresSeconds / 2)
    const untilMs = requestedMs + usedSeconds * 1_000
    known.set(endpointId, { client: identity, token, untilMs })
    return { token }
  }
  return {
    async find(endpointId, client) {
      const identity = JSON.stringify(client)
      const found = known.get(endpointId)
      if (found?.client === identity && clock.now() < found.untilMs) return { token: found.token }
      // Many deliveries need a token at the same time, and share one request.
      const key = `${endpointId} ${identity}`
      const pending = inProgress.get(key)
      if (pending) return pending
      const request = obtain(endpointId, client, identity).finally(() => inProgress.delete(key))
      inProgress.set(key, request)
      return request
    },
    forget(endpointId, token) {
      if (known.get(endpointId)?.token === token) known.delete(endpointId)
    },
  }
}

function request(httpClient: HttpClient, id: string, client: OAuth2Client): Promise<Outcome> {
  const { tokenUrl, clientId, clientSecret, scope, audience, credentialsInBody } = client
  const form = new URLSearchParams({ grant_type: 'client_credentials' })
  if (scope !== '') form.set('scope', scope)
  if (audience !== '') form.set('audience', audience)
  const headers: Record<string, string> = {
    'content-type': 'application/x-www-form-urlencoded',
    'user-agent': 'Inflow-Webhooks/1',
    accept: 'application/json',
  }
  if (credentialsInBody) {
    form.set('client_id', clientId)
    form.set('client_secret', clientSecret)
  } else {
    // RFC 6749, 2.3.1: each part is encoded as in a form.
    const encoded = [clientId, clientSecret].map((part) => formEncoded(part)).join(':')
    headers['authorization'] = `Basic ${Buffer.from(encoded).toString('base64')}`
  }
  const to = { endpointId: `${id} token`, url: tokenUrl, concurrency: 1 }
  return httpClient.post(to, headers, form.toString(), BOUNDS)
}

function formEncoded(text: string): string {
  return new URLSearchParams({ '': text }).toString().slice(1)
}

/** Shows only the standard error code of a refusal: the rest may repeat what was sent. */
function readToken({ error, responseBody }: Outcome) {
  const body = parse(responseBody)
  if (error !== '') {
    const code = body['error']
    const isCode = typeof code === 'string' && /^[a-z_]{1,50}$/.test(code)
    return { error: `no access token: ${error}${isCode ? ` (${code})` : ''}` }
  }
  const { access_token: token, token_type: type, expires_in: expires } = body
  const isBearer = typeof type === 'string' && type.toLowerCase() === 'bearer'
  if (typeof token !== 'string' || !TOKEN.test(token) || !isBearer) {
    return { error: 'no access token: the response has no bearer token' }
  }
  const stated = Number(expires ?? EXPIRES_DEFAULT_SECONDS)
  const expiresSeconds = stated > 0 ? Math.min(stated, EXPIRES_MAX_SECONDS) : 0
  return { token, expiresSeconds }
}

function parse(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? { ...value } : {}
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

/** Reads connections once for each version; endpoints that never had one cost nothing. */
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
