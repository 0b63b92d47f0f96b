import type { FieldFault } from '../../core/errors.ts'
import { type UrlRules, urlRefusal } from '../sender/address-guard.ts'
import { certificateFaults } from './client-certificate.ts'
import type {
  Authentication,
  BasicAuthentication,
  Connection,
  ConnectionChange,
  Header,
} from './connection.ts'

/** All custom headers together, in characters. */
const HEADERS_LENGTH_MAX = 8_000

/**
 * Headers that the service, its HTTP client or a proxy sets: of the signature, of the body, of the
 * connection.
 */
const RESERVED =
  /^(webhook-.*|x-wiaxy-.*|proxy-.*|content-(type|length|encoding)|transfer-encoding|connection|keep-alive|te|trailer|upgrade|expect|host|user-agent|traceparent|tracestate)$/i

/** A token of RFC 9110. */
const NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/
const VALUE = /^[\x20-\x7e]+$/
const CONTROL = /\p{Cc}/u

const HEADERS = 'options.headers.headers'
const BASIC = 'options.authentication.basic'
const OAUTH2 = 'options.authentication.oauth2'

/** The faults of a requested change by itself. */
export function changeFaults(
  { headers, authentication, certificate }: ConnectionChange,
  rules: UrlRules,
  nowMs: number,
): FieldFault[] {
  return [
    ...headersFaults(headers ?? []),
    ...(authentication ? authenticationFaults(authentication, rules) : []),
    ...(certificate ? certificateFaults(certificate, nowMs) : []),
  ]
}

function authenticationFaults(authentication: Authentication, rules: UrlRules): FieldFault[] {
  if (authentication.method === 'basic') return basicFaults(authentication)
  const message = urlRefusal(authentication.tokenUrl, rules)
  return message === undefined ? [] : [{ field: `${OAUTH2}.tokenUrl`, message }]
}

/**
 * The faults of a change together with what there was: its secrets stay with their origin, so that a
 * new URL cannot obtain them.
 */
export function combinedFaults(
  current: Connection | undefined,
  change: ConnectionChange,
  next: Connection | undefined,
): FieldFault[] {
  const isMoved = current !== undefined && next !== undefined && current.origin !== next.origin
  const kept = [
    ...(change.headers === undefined && current?.headers.length ? ['headers'] : []),
    ...(change.authentication === undefined && current?.authentication ? ['authentication'] : []),
  ]
  if (isMoved && kept.length > 0) {
    const message = `is another origin: state ${kept.join(' and ')} again, or remove them`
    return [{ field: 'url', message }]
  }
  if (next?.certificate && !next.origin.startsWith('https:')) {
    return [{ field: 'options.clientCertificate', message: 'needs an https URL' }]
  }
  const at = next?.headers.findIndex(({ name }) => name.toLowerCase() === 'authorization') ?? -1
  if (at < 0 || !next?.authentication) return []
  const message = 'must not be authorization, as there is an authentication method'
  return [{ field: `${HEADERS}[${at}].name`, message }]
}

function headersFaults(headers: readonly Header[]): FieldFault[] {
  const seen = new Set<string>()
  const faults = headers.flatMap(({ name, value }, index): FieldFault[] => {
    const field = `${HEADERS}[${index}]`
    const isRepeated = seen.has(name.toLowerCase())
    seen.add(name.toLowerCase())
    const message = isRepeated ? 'is repeated' : nameFault(name)
    return [
      ...(message === undefined ? [] : [{ field: `${field}.name`, message }]),
      ...(VALUE.test(value)
        ? []
        : [{ field: `${field}.value`, message: 'must be printable ASCII' }]),
    ]
  })
  const length = headers.reduce((sum, { name, value }) => sum + name.length + value.length, 0)
  if (length <= HEADERS_LENGTH_MAX) return faults
  const message = `must have at most ${HEADERS_LENGTH_MAX} characters together`
  return [...faults, { field: HEADERS, message }]
}

function nameFault(name: string): string | undefined {
  if (!NAME.test(name)) return 'must be a header name, such as x-api-key'
  return RESERVED.test(name) ? 'is set by the service' : undefined
}

function basicFaults({ username, password }: BasicAuthentication): FieldFault[] {
  const faults: FieldFault[] = []
  if (username.includes(':') || CONTROL.test(username)) {
    const message = 'must not contain a colon or control characters'
    faults.push({ field: `${BASIC}.username`, message })
  }
  if (CONTROL.test(password)) {
    faults.push({ field: `${BASIC}.password`, message: 'must not contain control characters' })
  }
  return faults
}
