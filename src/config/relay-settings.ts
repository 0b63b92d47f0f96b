import { z } from 'zod'
import { choice, integer, parsed, secret } from './settings.ts'

/** The NATS servers of RELAY_URL, and how to sign in there. */
interface RelayServers {
  /** `host:port` of each. */
  readonly servers: readonly string[]
  /** Whether the URL asks for TLS; NATS servers may ask for it too. */
  readonly tls: boolean
  readonly user: string | undefined
  readonly password: string | undefined
  /** In place of user and password. */
  readonly token: string | undefined
}

/** The settings of the relay; without a URL there is none. */
export const RELAY_FIELDS = {
  RELAY_URL: secret(
    parsed(
      parseRelayUrl,
      'must be one or more URLs such as nats://user:password@host:4222, or tls://, with the same user',
    ).optional(),
  ),
  /** How the body of a message is encoded. */
  RELAY_FORMAT: choice(['protobuf', 'json']).default('protobuf'),
  /** A file of NATS credentials: a JWT and its key. */
  RELAY_CREDENTIALS: z.string().optional(),
  /** A PEM file: the authority of the NATS servers' certificates. */
  RELAY_TLS_CA: z.string().optional(),
  /** The replicas of a new stream. */
  RELAY_REPLICAS: integer(1, 5, '1 to 5 replicas').default(1),
}

/** `nats://user:password@host:4222,nats://other:4222`, or `nats://token@host` */
function parseRelayUrl(text: string): RelayServers | undefined {
  const urls = text.split(',').map((part) => parseUrl(part.trim()))
  const [first] = urls
  if (first === undefined) return undefined
  const isSame = (url: URL | undefined) =>
    url !== undefined &&
    url.protocol === first.protocol &&
    (url.username + url.password === '' || userOf(url) === userOf(first))
  if (!urls.every(isSame)) return undefined
  const name = decodeURIComponent(first.username) || undefined
  const password = decodeURIComponent(first.password) || undefined
  const isToken = password === undefined
  return {
    servers: urls.map((url) => (url as URL).host),
    tls: first.protocol === 'tls:',
    user: isToken ? undefined : name,
    password,
    token: isToken ? name : undefined,
  }
}

const userOf = ({ username, password }: URL): string => `${username}:${password}`

function parseUrl(text: string): URL | undefined {
  try {
    const url = new URL(text)
    // Throws on invalid escapes.
    decodeURIComponent(url.username + url.password)
    const isPlain = /^\/?$/.test(url.pathname) && url.search + url.hash === ''
    return /^(nats|tls):$/.test(url.protocol) && url.host !== '' && isPlain ? url : undefined
  } catch {
    return undefined
  }
}
