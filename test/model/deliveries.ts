import { DAY_MS, HOUR_MS } from '../../src/core/durations.ts'
/**
 * A model of webhooks, as plain data: `step` applies a change by a caller, `logged` an event of the log, and
 * `received` a request at a receiver. Instances choose the order in which they send. The model knows which requests they
 * may make, how each outcome counts, and which requests must have been sent when no work is left (`finish`).
 *
 * Times are ranges, because instances have their own clocks: see `adopt` in deliveries-compare.ts.
 */

export interface Range {
  readonly fromMs: number
  readonly toMs: number
}

/** How a receiver responds: `hold` delays the response to a request until it is released; `odd` rejects odd sequences. */
export type Mood = 'ok' | 'fail' | 'close' | 'gone' | 'later' | 'odd' | 'hold'
export type Outcome = 'ok' | 'fail' | 'close' | 'gone' | 'later'

export const SHOWN: Readonly<Record<Outcome, { readonly status: number; readonly error: string }>> =
  {
    ok: { status: 200, error: '' },
    fail: { status: 500, error: 'responded with 500' },
    close: { status: 0, error: 'connection closed without a response' },
    gone: { status: 410, error: 'responded with 410' },
    later: { status: 503, error: 'responded with 503' },
  }

/** The Retry-After of a receiver that responds `later`. */
export const LATER_MS = 2 * HOUR_MS
export const LEASE_MS = 60_000
export const SCHEDULE_MS = [60_000, 600_000, 3 * HOUR_MS] as const
export const RETENTION_DAYS = 30
/** The total duration of retries. */
const PAUSED_MAX_MS = SCHEDULE_MS.reduce((sum, ms) => sum + ms, 0)
const SECRETS_MAX = 5

interface Disabled {
  readonly reason: 'REQUESTED' | 'GONE' | 'FAILING'
  readonly at: Range
  readonly step: number
}

export interface Endpoint {
  readonly name: string
  readonly business: string
  readonly live: boolean
  /** Of the events that there were before it. */
  readonly after: number
  ordered: boolean
  kinds: readonly string[]
  path: string
  mood: Mood
  disabled: Disabled | undefined
  isDeleted: boolean
  /** The first failure since the last success. `maybe`: whether the success was after it is not known. */
  failing: { readonly since: Range; readonly maybe: boolean } | undefined
  warned: Range | undefined
  /** The numbers of its signing secrets, newest first, and when they expire. */
  secrets: { readonly number: number; expires: Range | undefined }[]
  /** Of the last event that it was sent, or is to be sent. */
  lastSequence: number
}

export interface LogEvent {
  readonly id: string
  readonly business: string
  readonly live: boolean
  readonly kind: string
  /** The endpoint that it is about. */
  readonly subject: string | undefined
  readonly sequence: number
  readonly partition: number
  isExpired: boolean
}

export interface Delivery {
  readonly endpoint: string
  /** The place of its event in the log. */
  readonly event: number
  readonly sequence: number
  readonly previous: number
  created: Range
  state: 'PENDING' | 'DELIVERED' | 'FAILED'
  due: Range
  completed: Range | undefined
  failure: string
  scheduleFrom: number
  readonly attempts: Outcome[]
  /** When the last recorded attempt started. */
  started: Range | undefined
  /** Of the request in progress: its claim is the latest one, until another is made or it is ended. */
  claim: { readonly request: number; lease: Range } | undefined
}

/** A request that a receiver got. */
export interface Request {
  readonly number: number
  readonly endpoint: string
  readonly path: string
  readonly eventId: string
  readonly kind: string
  readonly sequence: number
  readonly previous: number
  readonly timestampMs: number
  /** The numbers of the secrets of its signatures. */
  readonly signedBy: readonly number[]
  readonly outcome: Outcome | 'hold'
}

type HealthKind = 'ENDPOINT_FAILING' | 'ENDPOINT_DISABLED'

/** An event that the log must or may get. */
interface Expected {
  readonly business: string
  readonly live: boolean
  readonly kind: string
  readonly subject: string | undefined
  readonly reason: 'GONE' | 'FAILING' | undefined
  readonly isCertain: boolean
  readonly step: number
}

/** A request without a response yet. */
interface Held {
  readonly request: Request
  readonly delivery: Delivery
  readonly started: Range
}

/** A recorded outcome. */
interface Recorded {
  readonly outcome: Outcome
  readonly path: string
  readonly started: Range
}

export interface World {
  /** Of the earliest and the latest clock, during this step. */
  clock: Range
  step: number
  readonly endpoints: Map<string, Endpoint>
  readonly events: LogEvent[]
  deliveries: Delivery[]
  expected: Expected[]
  /** The places of events in the log that were not matched with expected ones yet. */
  unexplained: number[]
  /** The requests without a response yet. */
  readonly held: Map<number, Held>
  /** The requests whose process was killed: their claims last as long as their leases, and no outcome is recorded. */
  readonly dead: Set<number>
  /** Whether a process was killed, with what it had counted and not stored. */
  hasCrashed: boolean
  /** Outcomes that were recorded and not judged yet, by endpoint. */
  readonly outcomes: Map<string, Recorded[]>
  /** Attempts that were recorded, by business and mode. */
  readonly counts: Map<string, { attempts: number; delivered: number; failed: number }>
  /** The partition of the next delivery. */
  partition: number
}

export type Command =
  | {
      readonly kind: 'publish'
      readonly events: readonly Pick<LogEvent, 'business' | 'live' | 'kind'>[]
    }
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'mood'; readonly endpoint: string; readonly mood: Mood }
  | { readonly kind: 'release'; readonly request: number; readonly outcome: Outcome }
  | { readonly kind: 'redeliver' | 'skip'; readonly endpoint: string; readonly event: number }
  | { readonly kind: 'recover'; readonly endpoint: string; readonly sinceMs: number }
  | { readonly kind: 'enable' | 'disable' | 'delete' | 'test'; readonly endpoint: string }
  | { readonly kind: 'order'; readonly endpoint: string; readonly ordered: boolean }
  | { readonly kind: 'move'; readonly endpoint: string; readonly path: string }
  | { readonly kind: 'choose'; readonly endpoint: string; readonly kinds: readonly string[] }
  | { readonly kind: 'rotate'; readonly endpoint: string; readonly overlapMs: number }
  | { readonly kind: 'expireEvents'; readonly upTo: number }
  | { readonly kind: 'cut' | 'retain' | 'crash' }

export const newWorld = (): World => ({
  clock: { fromMs: 0, toMs: 0 },
  step: 0,
  endpoints: new Map(),
  events: [],
  deliveries: [],
  expected: [],
  unexplained: [],
  held: new Map(),
  dead: new Set(),
  hasCrashed: false,
  outcomes: new Map(),
  counts: new Map(),
  partition: 0,
})

const plus = ({ fromMs, toMs }: Range, ms: number): Range => ({
  fromMs: fromMs + ms,
  toMs: toMs + ms,
})

export const find = (world: World, endpoint: string, event: number): Delivery | undefined =>
  world.deliveries.find((each) => each.endpoint === endpoint && each.event === event)

const endpointOf = (world: World, name: string) => world.endpoints.get(name) as Endpoint

/** Applies a command of a caller. @returns "done", or the reason of a refusal */
export function step(world: World, command: Command): string {
  switch (command.kind) {
    case 'publish':
      for (const each of command.events) expectEvent(world, each, undefined)
      return 'done'
    case 'wait':
      return 'done'
    case 'mood':
      endpointOf(world, command.endpoint).mood = command.mood
      return 'done'
    case 'release':
      release(world, command.request, command.outcome)
      return 'done'
    case 'redeliver':
    case 'skip':
      return change(world, command)
    case 'expireEvents':
      for (const event of world.events.slice(0, command.upTo)) event.isExpired = true
      return 'done'
    case 'cut':
      world.partition += 1
      return 'done'
    case 'retain':
      return retain(world)
    case 'crash':
      for (const request of world.held.keys()) world.dead.add(request)
      world.hasCrashed = true
      // Instances apply the retention when they start.
      retain(world)
      return 'done'
    default:
      return changeEndpoint(world, command)
  }
}

function changeEndpoint(
  world: World,
  command: Exclude<Extract<Command, { endpoint: string }>, { kind: 'mood' | 'redeliver' | 'skip' }>,
): string {
  const endpoint = endpointOf(world, command.endpoint)
  if (endpoint.isDeleted) return 'not_found'
  switch (command.kind) {
    case 'enable':
      Object.assign(endpoint, { disabled: undefined, failing: undefined, warned: undefined })
      return 'done'
    case 'disable':
      endpoint.disabled ??= { reason: 'REQUESTED', at: world.clock, step: world.step }
      return 'done'
    case 'delete':
      endpoint.isDeleted = true
      return 'done'
    case 'order':
      endpoint.ordered = command.ordered
      return 'done'
    case 'move':
      if (endpoint.path !== command.path) {
        Object.assign(endpoint, { path: command.path, failing: undefined, warned: undefined })
      }
      return 'done'
    case 'choose':
      endpoint.kinds = command.kinds
      return 'done'
    case 'rotate':
      return rotate(world, endpoint, command.overlapMs)
    case 'test':
      if (endpoint.disabled) return 'endpoint_disabled'
      expectEvent(world, { ...endpoint, kind: 'ENDPOINT_TEST' }, endpoint.name)
      return 'done'
    case 'recover':
      return endpoint.disabled ? 'endpoint_disabled' : recover(world, endpoint, command.sinceMs)
  }
}

function expectEvent(
  world: World,
  { business, live, kind }: Pick<LogEvent, 'business' | 'live' | 'kind'>,
  subject: string | undefined,
  { reason, isCertain = true }: { reason?: 'GONE' | 'FAILING'; isCertain?: boolean } = {},
): void {
  const each = { business, live, kind, subject, reason, isCertain, step: world.step }
  world.expected.push(each)
}

/** Earlier secrets sign until the end of the overlap, and no longer than they would have. */
function rotate({ clock }: World, endpoint: Endpoint, overlapMs: number): string {
  const active = endpoint.secrets.filter(({ expires }) => !expires || expires.fromMs > clock.toMs)
  if (overlapMs > 0 && active.length >= SECRETS_MAX) return 'too_many_secrets'
  const end = plus(clock, overlapMs)
  for (const each of active) {
    if (!each.expires || each.expires.fromMs > end.fromMs) each.expires = end
  }
  const number = (endpoint.secrets[0]?.number ?? 0) + 1
  endpoint.secrets = [{ number, expires: undefined }, ...(overlapMs > 0 ? active : [])]
  return 'done'
}

// Sending again, and not sending

/** It is due at once, with the full schedule. That ends the claim of a request in progress. */
function restart({ clock }: World, delivery: Delivery): void {
  Object.assign(delivery, { state: 'PENDING', due: clock, completed: undefined, failure: '' })
  Object.assign(delivery, { scheduleFrom: delivery.attempts.length, claim: undefined })
}

function fail({ clock }: World, delivery: Delivery, failure: string): void {
  Object.assign(delivery, { state: 'FAILED', completed: clock, failure, claim: undefined })
}

const isLeased = ({ clock }: World, { claim }: Delivery) =>
  claim !== undefined && claim.lease.fromMs > clock.toMs

const waitsForRetry = (world: World, delivery: Delivery) =>
  delivery.due.fromMs > world.clock.toMs && !isLeased(world, delivery)

function change(
  world: World,
  { kind, endpoint: name, event }: Extract<Command, { kind: 'redeliver' | 'skip' }>,
): string {
  const delivery = find(world, name, event)
  if (delivery === undefined) return 'not_found'
  const endpoint = endpointOf(world, name)
  if (kind === 'skip') {
    if (delivery.state !== 'PENDING') return 'delivery_completed'
    fail(world, delivery, 'skipped')
    return 'done'
  }
  if (endpoint.isDeleted) return 'not_found'
  if (endpoint.disabled) return 'endpoint_disabled'
  if (world.events[event]?.isExpired) return 'event_expired'
  if (delivery.state !== 'PENDING' || waitsForRetry(world, delivery)) restart(world, delivery)
  return 'done'
}

function recover(world: World, { name }: Endpoint, sinceMs: number): string {
  const again = world.deliveries.filter((each) => {
    if (each.endpoint !== name || each.created.fromMs < sinceMs) return false
    if (each.state === 'FAILED') return !world.events[each.event]?.isExpired
    // What has been attempted since the call is left alone.
    const isEarlier = each.started === undefined || each.started.toMs < world.clock.fromMs
    return each.state === 'PENDING' && waitsForRetry(world, each) && isEarlier
  })
  for (const each of again) restart(world, each)
  return `${again.length}`
}

/** Ends what will not be sent, and drops the partitions in which everything is old. */
function retain(world: World): string {
  const { clock } = world
  let expired = 0
  for (const delivery of world.deliveries) {
    const { isDeleted, disabled } = endpointOf(world, delivery.endpoint)
    if (delivery.state !== 'PENDING' || isLeased(world, delivery)) continue
    const isPaused = (range: Range | undefined) =>
      range !== undefined && range.toMs < clock.fromMs - PAUSED_MAX_MS
    if (isDeleted && delivery.due.toMs < clock.fromMs) {
      fail(world, delivery, 'the endpoint was removed')
    } else if (!isDeleted && isPaused(disabled?.at) && isPaused(delivery.due)) {
      fail(world, delivery, 'the endpoint was disabled for longer than the retry period')
    } else continue
    expired += 1
  }
  const oldest = clock.fromMs - RETENTION_DAYS * DAY_MS
  for (let partition = 0; partition < world.partition; partition++) {
    const isIn = (each: Delivery) => world.events[each.event]?.partition === partition
    if (world.deliveries.filter(isIn).some(({ created }) => created.toMs >= oldest)) break
    world.deliveries = world.deliveries.filter((each) => !isIn(each))
  }
  return `${expired}`
}

// Events and requests

/** An event gets a delivery for each endpoint that receives it. `finish` knows whether it was expected. */
export function logged(world: World, event: Omit<LogEvent, 'partition' | 'isExpired'>): void {
  const index = world.events.push({ ...event, partition: world.partition, isExpired: false }) - 1
  for (const endpoint of world.endpoints.values()) {
    if (!receives(world, endpoint, event) || endpoint.after > index) continue
    world.deliveries.push({
      endpoint: endpoint.name,
      event: index,
      sequence: event.sequence,
      attempts: [],
      started: undefined,
      previous: endpoint.lastSequence,
      created: world.clock,
      due: world.clock,
      state: 'PENDING',
      completed: undefined,
      failure: '',
      scheduleFrom: 0,
      claim: undefined,
    })
    endpoint.lastSequence = event.sequence
  }
  world.unexplained.push(index)
}

function receives(
  { clock }: World,
  { name, business, live, kinds, isDeleted, disabled }: Endpoint,
  event: Pick<LogEvent, 'business' | 'live' | 'kind' | 'subject'>,
): boolean {
  if (business !== event.business || live !== event.live || isDeleted) return false
  if (disabled && disabled.at.toMs < clock.fromMs - PAUSED_MAX_MS) return false
  if (event.kind === 'ENDPOINT_TEST') return event.subject === name
  if (event.subject === name) return false
  return kinds.length === 0 ? event.kind !== 'ACCOUNT_CREATED' : kinds.includes(event.kind)
}

/** Applies a request at a receiver, which responds unless the request is held. @returns the faults of the request */
export function received(world: World, request: Request): string {
  const endpoint = endpointOf(world, request.endpoint)
  endLost(world, endpoint)
  const index = world.events.findLastIndex(({ id }) => id === request.eventId)
  const event = world.events[index]
  const delivery = find(world, endpoint.name, index)
  if (event === undefined || delivery === undefined) return 'there is no such delivery'
  const { sequence, kind } = event
  if (request.sequence !== sequence || request.kind !== kind) return 'it is another event'
  if (request.previous !== delivery.previous) return `the event before it is ${delivery.previous}`
  if (request.path !== endpoint.path) return 'it goes to the URL of before'
  const wrong = whyNotDue(world, endpoint, delivery) || whyNotSigned(world, endpoint, request)
  if (wrong !== '') return wrong
  const { number, outcome } = request
  const lease = plus(world.clock, LEASE_MS)
  delivery.claim = { request: number, lease }
  if (outcome === 'hold') world.held.set(number, { request, delivery, started: world.clock })
  else record(world, delivery, { outcome, path: request.path, started: world.clock })
  return ''
}

function whyNotDue(world: World, endpoint: Endpoint, delivery: Delivery): string {
  const { clock } = world
  if (endpoint.isDeleted) return 'its endpoint is deleted'
  const { disabled } = endpoint
  // Endpoints are disabled for their failures while they are sent others.
  const isJust = disabled?.step === world.step && disabled.reason !== 'REQUESTED'
  if (disabled && !isJust) return 'its endpoint is disabled'
  if (delivery.state !== 'PENDING') return `it is ${delivery.state}`
  if (delivery.due.fromMs > clock.toMs) return 'it is not due'
  if (isLeased(world, delivery)) return 'another request of it is in progress'
  const isFirst = delivery === firstPending(world, endpoint)
  return endpoint.ordered && !isFirst ? 'an event before it is not acknowledged' : ''
}

const firstPending = (world: World, { name }: Endpoint) =>
  world.deliveries.find((each) => each.endpoint === name && each.state === 'PENDING')

function whyNotSigned({ clock }: World, { secrets }: Endpoint, request: Request): string {
  const { fromMs, toMs } = clock
  const { signedBy, timestampMs } = request
  const must = secrets.filter(({ expires }) => !expires || expires.fromMs > toMs)
  const may = secrets.filter(({ expires }) => !expires || expires.toMs > fromMs)
  const isSigned = [must, may].some(
    (each) => `${each.map(({ number }) => number)}` === `${signedBy}`,
  )
  if (!isSigned) return `it is signed by ${signedBy}, not by ${must.map(({ number }) => number)}`
  // In whole seconds.
  const isNow = timestampMs > fromMs - 1_000 && timestampMs <= toMs
  return isNow ? '' : 'its timestamp is of another time'
}

function release(world: World, request: number, outcome: Outcome): void {
  if (world.dead.has(request)) return
  const held = world.held.get(request)
  world.held.delete(request)
  // Another claim has been made, or the delivery was ended or sent again meanwhile: it counts no more.
  if (held?.delivery.claim?.request !== request) return
  if (!world.deliveries.includes(held.delivery)) return
  record(world, held.delivery, { outcome, path: held.request.path, started: held.started })
}

function record(world: World, delivery: Delivery, recorded: Recorded): void {
  const { outcome } = recorded
  const { clock, outcomes } = world
  const { name, ordered, business, live } = endpointOf(world, delivery.endpoint)
  outcomes.set(name, [...(outcomes.get(name) ?? []), recorded])
  delivery.attempts.push(outcome)
  delivery.started = recorded.started
  delivery.claim = undefined
  const inSchedule = delivery.attempts.length - delivery.scheduleFrom
  const place = ordered ? Math.min(inSchedule, SCHEDULE_MS.length) : inSchedule
  const waitMs = SCHEDULE_MS[place - 1]
  if (outcome === 'ok') Object.assign(delivery, { state: 'DELIVERED', completed: clock })
  else if (waitMs === undefined) fail(world, delivery, 'the last attempt failed')
  else {
    const leastMs = outcome === 'later' ? LATER_MS : 0
    const [fromMs, toMs] = [Math.max(0.8 * waitMs, leastMs), Math.max(1.2 * waitMs, leastMs)]
    delivery.due = { fromMs: clock.fromMs + fromMs, toMs: clock.toMs + toMs }
  }
  const key = `${business} ${live}`
  const counts = world.counts.get(key) ?? { attempts: 0, delivered: 0, failed: 0 }
  counts.attempts += 1
  if (delivery.state === 'DELIVERED') counts.delivered += 1
  if (delivery.state === 'FAILED') counts.failed += 1
  world.counts.set(key, counts)
}

/** Deliveries whose turn it is, but whose event retention has deleted. */
function endLost(world: World, endpoint: Endpoint): void {
  for (;;) {
    const lost = dueOf(world, endpoint).filter(({ event }) => world.events[event]?.isExpired)
    if (lost.length === 0) return
    for (const each of lost) fail(world, each, 'the event expired')
  }
}

/** The deliveries that instances can send now: of an ordered endpoint only the first. */
function dueOf(world: World, endpoint: Endpoint): Delivery[] {
  if (endpoint.isDeleted || endpoint.disabled) return []
  const first = endpoint.ordered ? firstPending(world, endpoint) : undefined
  return world.deliveries.filter((each) => {
    if (each.endpoint !== endpoint.name || each.state !== 'PENDING') return false
    if (endpoint.ordered && each !== first) return false
    const isFree = each.claim === undefined || each.claim.lease.toMs <= world.clock.toMs
    return isFree && each.due.toMs <= world.clock.toMs
  })
}

/**
 * Called when no work is left: determines the health of endpoints, and finds requests that should have been sent.
 *
 * @param isOneBatch whether all outcomes since the last call were recorded in one batch
 * @returns the faults
 */
export function finish(world: World, isOneBatch: boolean): string {
  for (const [name, outcomes] of world.outcomes)
    judge(world, endpointOf(world, name), outcomes, isOneBatch)
  world.outcomes.clear()
  for (const index of world.unexplained.splice(0)) {
    const wrong = explain(world, index)
    if (wrong !== '') return wrong
  }
  for (const endpoint of world.endpoints.values()) {
    endLost(world, endpoint)
    const [due] = dueOf(world, endpoint)
    const isSoon = world.expected.some(({ kind, subject }) => {
      return kind === 'ENDPOINT_DISABLED' && subject === endpoint.name
    })
    if (due && !isSoon) return `${endpoint.name} was not sent its event ${due.sequence}`
  }
  return ''
}

/** Applies the effects of an expected event. @returns its faults */
function explain(world: World, index: number): string {
  const { business, live, kind, subject } = world.events[index] as LogEvent
  const place = world.expected.findIndex((each) => {
    return (
      each.business === business &&
      each.live === live &&
      each.kind === kind &&
      each.subject === subject
    )
  })
  const [found] = place < 0 ? [] : world.expected.splice(place, 1)
  if (found === undefined) return `an event that is not expected: ${kind} ${subject ?? ''}`
  if (kind === 'ENDPOINT_FAILING') endpointOf(world, subject as string).warned = world.clock
  if (kind === 'ENDPOINT_DISABLED') {
    const { reason = 'FAILING' } = found
    endpointOf(world, subject as string).disabled = { reason, at: world.clock, step: world.step }
  }
  return ''
}

/** If outcomes are recorded together, one success makes an endpoint healthy. */
function judge(
  world: World,
  endpoint: Endpoint,
  outcomes: readonly Recorded[],
  isOneBatch: boolean,
): void {
  const failed = outcomes.filter(({ outcome }) => outcome !== 'ok')
  const isMixed = failed.length > 0 && failed.length < outcomes.length
  const { failing: before, warned } = endpoint
  if (failed.length < outcomes.length) endpoint.warned = undefined
  const since = spanOf(failed.map(({ started }) => started))
  if (failed.length === 0 || (isMixed && isOneBatch)) endpoint.failing = undefined
  else if (isMixed) endpoint.failing = { since, maybe: true }
  else if (before === undefined) endpoint.failing = { since, maybe: false }
  else if (before.maybe) {
    endpoint.failing = { since: spanOf([since, before.since]), maybe: false }
  }
  const here = failed.filter(({ path }) => path === endpoint.path)
  if (here.length === 0 || endpoint.disabled || endpoint.isDeleted) return
  if (here.some(({ outcome }) => outcome === 'gone')) {
    const isCertain = failed.every(({ outcome }) => outcome === 'gone')
    expectHealth(world, endpoint, 'ENDPOINT_DISABLED', 'GONE', isCertain)
  }
  // The first of several failures may have begun long ago.
  const known = before ?? (failed.length > 1 ? endpoint.failing : undefined)
  if (known === undefined) return
  const verdicts = [known.since.fromMs, known.since.toMs].flatMap((sinceMs) =>
    [world.clock.fromMs, world.clock.toMs].map((nowMs) => verdictOf(warned, sinceMs, nowMs)),
  )
  const isCertain = !isMixed && before?.maybe === false && new Set(verdicts).size === 1
  const isOther = here.every(({ outcome }) => outcome !== 'gone')
  for (const verdict of new Set(verdicts)) {
    if (verdict) expectHealth(world, endpoint, verdict, 'FAILING', isCertain && isOther)
  }
}

const spanOf = (ranges: readonly Range[]): Range => ({
  fromMs: Math.min(...ranges.map(({ fromMs }) => fromMs)),
  toMs: Math.max(...ranges.map(({ toMs }) => toMs)),
})

/** A day of failures warns; five disable, a day or more after the warning. */
function verdictOf(
  warned: Range | undefined,
  sinceMs: number,
  nowMs: number,
): HealthKind | undefined {
  const failingMs = nowMs - sinceMs
  if (warned === undefined) return failingMs >= DAY_MS ? 'ENDPOINT_FAILING' : undefined
  const isWarned = nowMs - warned.toMs >= DAY_MS
  return failingMs >= 5 * DAY_MS && isWarned ? 'ENDPOINT_DISABLED' : undefined
}

function expectHealth(
  world: World,
  endpoint: Endpoint,
  kind: HealthKind,
  reason: 'GONE' | 'FAILING',
  isCertain: boolean,
): void {
  const isKnown = world.expected.some(
    (each) => each.kind === kind && each.subject === endpoint.name,
  )
  if (!isKnown) expectEvent(world, { ...endpoint, kind }, endpoint.name, { reason, isCertain })
}
