import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { connect } from 'node:tls'
import { EXIT, Failure } from './output.ts'

/** TLS options of a connection to the service, in addition to the CAs that the machine trusts. */
export interface TlsOptions {
  /** The CA certificate of the service, in PEM. */
  readonly ca?: Buffer
  /** A client certificate and its key, in PEM. */
  readonly cert?: Buffer
  readonly key?: Buffer
}

/**
 * Reads the files that INFLOW_CA, INFLOW_CERT and INFLOW_KEY name.
 *
 * @throws Failure naming the variable that is invalid
 */
export function readTlsOptions(env: NodeJS.ProcessEnv): TlsOptions {
  const read = (name: string): Buffer | undefined => {
    const path = env[name]?.trim()
    if (!path) return undefined
    try {
      return readFileSync(path)
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code
      // If the variable contains the key instead of the name of its file, the key must not get into a log.
      const shown = /^(sk|tok)_|-----BEGIN/.test(path) ? 'its value is a secret, not a path' : path
      throw new Failure(EXIT.usage, `${name} names a file that cannot be read (${code}): ${shown}`)
    }
  }
  const [ca, cert, key] = [read('INFLOW_CA'), read('INFLOW_CERT'), read('INFLOW_KEY')]
  if ((cert === undefined) !== (key === undefined)) {
    throw new Failure(EXIT.usage, 'INFLOW_CERT and INFLOW_KEY must be set together')
  }
  return { ...(ca && { ca }), ...(cert && key && { cert, key }) }
}

const ASKS_FOR_CERTIFICATE = 'it asks for a client certificate: set INFLOW_CERT and INFLOW_KEY'
const EXPIRED = 'the client certificate has expired: replace the file of INFLOW_CERT'
const NOT_ACCEPTED =
  'it does not accept the client certificate: set INFLOW_CERT and INFLOW_KEY to one of an authority that it trusts'

/** The errors of OpenSSL and Node for a failed TLS connection, with texts that say what an operator can do. */
const REASONS: readonly (readonly [pattern: RegExp, text: string])[] = [
  [
    /DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|self-signed certificate/i,
    'its certificate is self-signed, or of an authority of your own: set INFLOW_CA to the file of that certificate',
  ],
  [
    /UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT|unable to (verify the first certificate|get (local )?issuer certificate)|CERT_SIGNATURE_FAILURE|certificate signature failure/i,
    'its certificate is of an authority that is not trusted: set INFLOW_CA to the file of that authority’s certificate',
  ],
  [
    /ALERT_CERTIFICATE_REQUIRED|alert certificate required|ALERT_HANDSHAKE_FAILURE|alert handshake failure/i,
    ASKS_FOR_CERTIFICATE,
  ],
  [/ALERT_CERTIFICATE_EXPIRED|alert certificate expired/i, EXPIRED],
  [
    /ALERT_(UNKNOWN_CA|BAD_CERTIFICATE|UNSUPPORTED_CERTIFICATE|CERTIFICATE_(REVOKED|UNKNOWN)|DECRYPT_ERROR)|alert (unknown ca|bad certificate|unsupported certificate|certificate (revoked|unknown)|decrypt error)/i,
    NOT_ACCEPTED,
  ],
  [
    /CERT_HAS_EXPIRED|certificate has expired/i,
    'its certificate, or that in INFLOW_CA, has expired: replace it',
  ],
  [
    /CERT_NOT_YET_VALID|certificate is not yet valid/i,
    'its certificate is not valid yet: check the clocks',
  ],
  [
    /ERR_TLS_CERT_ALTNAME_INVALID|does not match certificate/i,
    'its certificate is for another host: use the host name that it is for, or check that INFLOW_CA and the URL are of the same service',
  ],
  [
    /WRONG_VERSION_NUMBER|wrong version number|PACKET_LENGTH_TOO_LONG|packet length too long/i,
    'it does not speak TLS: use http:// in its URL',
  ],
]

/** Explains why TLS failed; undefined if the error and its causes are not about TLS. */
export function tlsFailure(error: unknown): string | undefined {
  const text = describe(error)
  return REASONS.find(([pattern]) => pattern.test(text))?.[1]
}

/** How many causes below an error are read. */
const CAUSES_MAX = 5

function describe(error: unknown): string {
  const parts: string[] = []
  let current = error
  for (let depth = 0; depth <= CAUSES_MAX && current !== undefined && current !== null; depth++) {
    if (!(current instanceof Error)) return [...parts, String(current)].join(' ')
    parts.push('code' in current ? String(current.code) : '', current.message)
    current = current.cause
  }
  return parts.join(' ')
}

/** How long the probe waits for the server to refuse the client certificate, which happens after the handshake. */
const PROBE_MS = 2_000

/**
 * Connects again to determine whether a call failed because of TLS: if the server refuses the client certificate, an HTTP/2
 * client reports only that its stream was closed.
 *
 * @returns the explanation; undefined if TLS works, or the cause cannot be determined
 */
export function probeTls(url: string, options: TlsOptions): Promise<string | undefined> {
  const { hostname, port } = new URL(url)
  const host = hostname.replace(/^\[|]$/g, '')
  return new Promise((resolve) => {
    const socket = connect({
      host,
      port: Number(port || 443),
      ALPNProtocols: ['h2'],
      ...options,
      ...(isIP(host) === 0 && { servername: host }),
    })
    let secured = false
    const end = (why: string | undefined): void => {
      socket.destroy()
      resolve(why)
    }
    // Node's servers send no TLS alert; they close the connection after the handshake.
    const closed = () => end(secured ? refusedCertificate(options) : undefined)
    socket.setTimeout(PROBE_MS, () => end(undefined))
    socket.once('secureConnect', () => {
      secured = socket.alpnProtocol === 'h2'
    })
    socket.once('error', (error) => {
      const why = tlsFailure(error)
      if (why === undefined) closed()
      else end(why)
    })
    socket.once('close', closed)
    // The first HTTP/2 frame shows that the server has accepted the connection.
    socket.once('data', () => end(undefined))
  })
}

function refusedCertificate({ cert }: TlsOptions): string {
  if (cert === undefined) return ASKS_FOR_CERTIFICATE
  return hasExpired(cert) ? EXPIRED : NOT_ACCEPTED
}

function hasExpired(pem: Buffer): boolean {
  try {
    return new X509Certificate(pem).validToDate.getTime() < Date.now()
  } catch {
    return false
  }
}
