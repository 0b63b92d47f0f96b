import type { DescService } from '@bufbuild/protobuf'
import {
  type Client,
  Code,
  ConnectError,
  createClient,
  type Interceptor,
} from '@connectrpc/connect'
import { createGrpcTransport, Http2SessionManager } from '@connectrpc/connect-node'
import type { Command } from 'commander'
import {
  BadRequestSchema,
  ErrorInfoSchema,
  RetryInfoSchema,
} from '../../gen/google/rpc/error_details_pb.ts'
import { EXIT, Failure } from './failure.ts'
import { findService } from './find-service.ts'
import { type CredentialCache, readTrust } from './trust.ts'

/** How long one call may take. */
const CALL_TIMEOUT_MS = 30_000

/** How often a quiet stream is asked whether the other end is still there. */
const PING_INTERVAL_MS = 60_000

/** The largest answer: a page of 200 has room many times over. */
const ANSWER_BYTES_MAX = 16 * 1024 * 1024

/** A running service. */
export interface Service {
  readonly url: string
  /** Empty: the certificate says who calls. */
  readonly token: string
  /** For another connection to the same place. */
  readonly trust: CredentialCache
  client<Desc extends DescService>(service: Desc): Client<Desc>
  /** The business that was given, else the demo one. @throws Failure when there is neither */
  business(given: string | undefined): string
}

/** The options that every verb with a service has. */
export interface ServiceOptions {
  readonly serviceUrl?: string
  readonly token?: string
  readonly json?: boolean
}

/**
 * Makes the action of a verb that calls the service. It connects, hands over, and closes; what
 * went wrong becomes a Failure.
 */
export function calling<Options extends object>(
  use: (service: Service, options: Options & ServiceOptions, operand: string) => Promise<void>,
) {
  return async (...args: unknown[]): Promise<void> => {
    const command = args.at(-1) as Command
    const options = command.opts<Options & ServiceOptions>()
    const address = findService(options, process.env)
    const trust = readTrust(process.env)
    const pings = { pingIntervalMs: PING_INTERVAL_MS }
    const sessions = new Http2SessionManager(address.url, pings, trust)
    const transport = createGrpcTransport({
      baseUrl: address.url,
      sessionManager: sessions,
      interceptors: [authorize(address.token)],
      defaultTimeoutMs: CALL_TIMEOUT_MS,
      readMaxBytes: ANSWER_BYTES_MAX,
    })
    const service: Service = {
      url: address.url,
      token: address.token,
      trust,
      client: (desc) => createClient(desc, transport),
      business: (given) => given ?? address.businessId ?? missingBusiness(),
    }
    try {
      await use(service, options, command.args[0] ?? '')
    } catch (error) {
      throw error instanceof ConnectError ? toFailure(error, address.url) : error
    } finally {
      // An idle session lets the process end, but an attempt to connect would keep it alive.
      if (sessions.state() === 'connecting') sessions.abort()
    }
  }
}

/** What the service, or the way to it, made of a call. */
function toFailure(error: ConnectError, url: string): Failure {
  if (!error.isWireError) {
    const why = error.code === Code.DeadlineExceeded ? 'no answer in time' : error.rawMessage
    return unreachable(url, why)
  }
  const info = error.findDetails(ErrorInfoSchema)[0]
  const details = error
    .findDetails(BadRequestSchema)
    .flatMap((detail) => detail.fieldViolations)
    .map(({ field, description }) => `${field}: ${description}`)
  const delay = error.findDetails(RetryInfoSchema)[0]?.retryDelay
  if (delay) details.push(`try again in ${delay.seconds} s`)
  const requestId = info?.metadata['request_id']
  if (error.code === Code.Internal && requestId) details.push(`request id: ${requestId}`)
  return refused(error.rawMessage, info?.reason ?? '', error.code, details)
}

/** Nobody answers there, or not as the service does. */
export function unreachable(url: string, why: string): Failure {
  return new Failure(EXIT.unreachable, `cannot reach the service at ${url}: ${why}`, [
    'start it with `npm start`, or say where it is: --url, or INFLOW_GRPC_URL',
  ])
}

/** The service said no. @param reason the stable one; empty: none was given */
export function refused(
  text: string,
  reason: string,
  code: Code,
  details: readonly string[],
): Failure {
  return new Failure(EXIT.refused, `${text} (${reason || nameOf(code)})`, details)
}

/** "PermissionDenied" → "permission_denied", for errors that carry no reason. */
function nameOf(code: Code): string {
  return (Code[code] ?? 'unknown').replace(/(?<!^)[A-Z]/g, '_$&').toLowerCase()
}

function authorize(token: string): Interceptor {
  return (next) => (request) => {
    if (token !== '') request.header.set('authorization', `Bearer ${token}`)
    return next(request)
  }
}

function missingBusiness(): never {
  throw new Failure(EXIT.usage, 'which business? give --business <id> (see `inflow business list`)')
}
