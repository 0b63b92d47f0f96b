import {
  type DescMessage,
  type DescMethodUnary,
  type DescService,
  type MessageInitShape,
  type MessageShape,
  toJson,
} from '@bufbuild/protobuf'
import {
  type CallOptions,
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
import { findService, type ServiceAddress, type TokenOptions, withProfile } from './find-service.ts'
import { EXIT, Failure, jsonText, print } from './output.ts'
import { commandProgress, type Progress } from './progress.ts'
import { probeTls, readTlsOptions, type TlsOptions, tlsFailure } from './tls.ts'

/** The deadline of one call. */
const CALL_TIMEOUT_MS = 30_000

/** The interval of HTTP/2 pings on an idle connection. */
const PING_INTERVAL_MS = 60_000

/** The largest response in bytes, many times the size of a page of 200 rows. */
const RESPONSE_BYTES_MAX = 16 * 1024 * 1024

/** A running service. */
export interface Service extends Pick<ServiceAddress, 'url' | 'token' | 'httpUrl'> {
  /** The TLS options, for further connections to the same service. */
  readonly tls: TlsOptions
  client<Desc extends DescService>(service: Desc): Client<Desc>
  /** Calls a method that is known only when the command runs. */
  call<Input extends DescMessage, Output extends DescMessage>(
    method: DescMethodUnary<Input, Output>,
    request: MessageInitShape<Input>,
    options?: Pick<CallOptions, 'signal' | 'timeoutMs'>,
  ): Promise<MessageShape<Output>>
  /** The progress of the verb. It is erased when the verb ends; the verb erases it before other output. */
  readonly progress: Progress
  /** Returns the given business, or else the demo business. @throws Failure if there is neither */
  business(given: string | undefined): string
}

/** The options of every verb that calls the service. */
export interface ServiceOptions extends TokenOptions {
  readonly serviceUrl?: string
  readonly serviceProfile?: string
  readonly json?: boolean
}

/**
 * Creates the action of a verb that calls the service: it finds the service, connects, runs `use`, and disconnects. A
 * failed call is thrown as a Failure.
 */
export function serviceAction<Options extends object>(
  use: (
    service: Service,
    options: Options & ServiceOptions,
    operand: string,
    another?: string,
  ) => Promise<void>,
) {
  return async (...args: unknown[]): Promise<void> => {
    const command = args.at(-1) as Command
    const options = command.opts<Options & ServiceOptions>()
    const env = withProfile(options, process.env)
    const address = findService(options, env)
    await callService({ ...address, json: options.json }, readTlsOptions(env), (service) =>
      use(service, options, command.args[0] ?? '', command.args[1]),
    )
  }
}

type Called = Pick<ServiceAddress, 'url' | 'token'> &
  Partial<Pick<ServiceAddress, 'httpUrl' | 'businessId'>> & { readonly json?: boolean | undefined }

/** Connects to a service, runs `use`, and disconnects. A failed call is thrown as a Failure. */
export async function callService<Result>(
  { url, token, httpUrl, businessId, json }: Called,
  tls: TlsOptions,
  use: (service: Service) => Promise<Result>,
): Promise<Result> {
  const sessions = new Http2SessionManager(url, { pingIntervalMs: PING_INTERVAL_MS }, tls)
  const transport = createGrpcTransport({
    baseUrl: url,
    sessionManager: sessions,
    interceptors: [authorize(token)],
    defaultTimeoutMs: CALL_TIMEOUT_MS,
    readMaxBytes: RESPONSE_BYTES_MAX,
  })
  const service: Service = {
    url,
    token,
    httpUrl,
    tls,
    client: (desc) => createClient(desc, transport),
    call: async (method, request, { signal, timeoutMs } = {}) =>
      (await transport.unary(method, signal, timeoutMs, undefined, request)).message,
    progress: commandProgress(json),
    business: (given) => given ?? businessId ?? missingBusiness(),
  }
  try {
    return await use(service)
  } catch (error) {
    const failure = error instanceof ConnectError ? toFailure(error, url) : error
    throw await explained(failure, url, tls)
  } finally {
    service.progress.end()
    // An idle session lets the process exit, but a pending connection attempt does not.
    if (sessions.state() === 'connecting') sessions.abort()
  }
}

/** Reads the pages of a list, one after another. */
export async function* pagesOf<Page extends { readonly nextPageToken: string }>(
  request: (pageToken: string) => Promise<Page>,
): AsyncGenerator<Page> {
  let pageToken = ''
  do {
    const page = await request(pageToken)
    yield page
    pageToken = page.nextPageToken
  } while (pageToken !== '')
}

/**
 * Prints a response of the service.
 *
 * @param options with `json`: prints the protobuf JSON form instead of the text
 * @param text the text for a terminal; empty: prints nothing
 */
export function printResponse<Desc extends DescMessage>(
  options: { readonly json?: boolean },
  schema: Desc,
  message: MessageShape<Desc>,
  text: () => string,
): void {
  const lines = options.json ? jsonText(toJsonForm(schema, message), 2) : text()
  if (lines !== '') print(lines)
}

/** Returns the protobuf JSON form with every field, so that scripts need not know the defaults. */
export function toJsonForm<Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>) {
  return toJson(schema, message, { alwaysEmitImplicit: true })
}

/** Converts the error of a call: the service refused it, or could not be reached. */
function toFailure(error: ConnectError, url: string): Failure {
  if (!error.isWireError) {
    if (error.code === Code.DeadlineExceeded) return unreachable(url, 'no response in time')
    return unreachable(url, error.rawMessage, error)
  }
  const info = error.findDetails(ErrorInfoSchema)[0]
  const details = error
    .findDetails(BadRequestSchema)
    .flatMap((detail) => detail.fieldViolations)
    .map(({ field, description }) => `${field}: ${description}`)
  const delay = error.findDetails(RetryInfoSchema)[0]?.retryDelay
  if (delay) details.push(`retry in ${delay.seconds} s`)
  const requestId = info?.metadata['request_id']
  if (error.code === Code.Internal && requestId) details.push(`request id: ${requestId}`)
  return refused(error.rawMessage, info?.reason ?? '', error.code, details)
}

/** Thrown if TLS failed for a known reason. */
class InsecureFailure extends Failure {
  constructor(url: string, why: string) {
    super(EXIT.unreachable, `no secure connection to ${url}: ${why}`)
  }
}

/** Determines whether a service could not be reached because of TLS. */
async function explained(error: unknown, url: string, tls: TlsOptions): Promise<unknown> {
  const unknown = error instanceof Failure && !(error instanceof InsecureFailure)
  if (!unknown || error.exitCode !== EXIT.unreachable || !url.startsWith('https:')) return error
  const why = await probeTls(url, tls)
  return why === undefined ? error : new InsecureFailure(url, why)
}

/**
 * The failure if the service does not respond, or another server responds.
 *
 * @param cause the error of the connection; absent: only the reason
 */
export function unreachable(url: string, reason: string, cause: unknown = reason): Failure {
  const why = url.startsWith('https:') ? tlsFailure(cause) : undefined
  if (why !== undefined) return new InsecureFailure(url, why)
  return new Failure(EXIT.unreachable, `cannot reach the service at ${url}: ${reason}`, [
    'start it with `npm start`, or set its address with --url or INFLOW_GRPC_URL',
  ])
}

/** The failure if the service refused a call. @param reason the stable reason; empty: none */
export function refused(
  text: string,
  reason: string,
  code: Code,
  details: readonly string[],
): Failure {
  const stable = reason || nameOf(code)
  return new Failure(EXIT.refused, `${text} (${stable})`, details, stable)
}

/** "PermissionDenied" → "permission_denied", for errors without a reason. */
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
  throw new Failure(EXIT.usage, 'no business: pass --business <id> (see `inflow business list`)')
}
