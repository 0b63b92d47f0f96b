import { isDeepStrictEqual } from 'node:util'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt'
import { DeliveryStatus, type Delivery as Shown } from '../../gen/inflow/webhook/v1/delivery_pb.ts'
import {
  DisabledReason,
  EndpointStatus,
  type Endpoint as ShownEndpoint,
} from '../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { HOUR_MS } from '../../src/core/durations.ts'
import { readWebhookHours } from '../../src/webhooks/count-attempts.ts'
import { pages } from '../support/pages.ts'
import { type Delivery, type Endpoint, type Range, SHOWN } from './deliveries.ts'
import { type Drive, idOf, nextClient } from './deliveries-drive.ts'

/** Compares the lists after each step, and adopts the shown times, which the model knows only as ranges. */
export async function adopt(drive: Drive): Promise<void> {
  const { world } = drive
  for (const business of businessesOf(drive)) {
    const businessId = idOf(drive, business)
    const { endpoints } = await nextClient(drive).listEndpoints({ businessId })
    const expected = endpointsOf(drive, business)
    same(
      'endpoints',
      endpoints.map(({ id }) => id),
      expected.map(({ name }) => idOf(drive, name)),
    )
    for (const [index, endpoint] of expected.entries())
      adoptEndpoint(drive, endpoint, endpoints[index]!)
  }
  for (const endpoint of world.endpoints.values()) {
    const expected = world.deliveries.filter((each) => each.endpoint === endpoint.name)
    const request = { endpointId: idOf(drive, endpoint.name), pageSize: 200 }
    const { deliveries } = await nextClient(drive).listDeliveries(request)
    const texts = expected.map((each) => expectedText(drive, each)).reverse()
    same(`deliveries of ${endpoint.name}`, deliveries.map(textOf), texts)
    for (const [index, delivery] of expected.toReversed().entries()) {
      adoptDelivery(delivery, deliveries[index]!)
    }
  }
}

function adoptEndpoint(drive: Drive, endpoint: Endpoint, shown: ShownEndpoint): void {
  const { name, disabled, failing, ordered, kinds } = endpoint
  const { status, disabledReason, failingSince } = shown
  const isFailing = failingSince !== undefined
  same(
    name,
    [status, disabledReason, isFailing, shown.kinds],
    [
      disabled ? EndpointStatus.DISABLED : EndpointStatus.ENABLED,
      disabled ? DisabledReason[disabled.reason] : DisabledReason.UNSPECIFIED,
      failing?.maybe ? isFailing : failing !== undefined,
      kinds,
    ],
  )
  if (!isFailing) endpoint.failing = undefined
  else
    endpoint.failing = {
      since: exact(`${name} fails since`, failing!.since, failingSince),
      maybe: false,
    }
  if (disabled) {
    endpoint.disabled = {
      ...disabled,
      at: exact(`${name} disabled at`, disabled.at, shown.disabledAt),
    }
  }
  const { fromMs, toMs } = drive.world.clock
  const active = (atMs: number) =>
    endpoint.secrets.filter(({ expires }) => !expires || expires.fromMs > atMs).length
  const { length } = shown.secrets
  if (length !== active(fromMs)) same(`secrets of ${name}`, length, active(toMs))
  for (const [index, { expiresAt }] of shown.secrets.entries()) {
    const secret = endpoint.secrets[index]!
    if (expiresAt)
      secret.expires = exact(`${name} secret ${secret.number}`, secret.expires!, expiresAt)
  }
  if (ordered) compareBlock(drive, endpoint, shown)
}

/** The first pending delivery of an ordered endpoint, if its latest attempt failed. */
function compareBlock({ world }: Drive, { name }: Endpoint, { options }: ShownEndpoint): void {
  const pending = world.deliveries.filter(
    (each) => each.endpoint === name && each.state === 'PENDING',
  )
  const [first] = pending
  const isBlocked = first !== undefined && first.attempts.length > first.scheduleFrom
  const { attemptCount, waitingCount, error } = options?.blockedBy ?? {}
  const expected = isBlocked
    ? [first.attempts.length, pending.length - 1, SHOWN[first.attempts.at(-1)!].error]
    : [undefined, undefined, undefined]
  same(`what ${name} waits for`, [attemptCount, waitingCount, error], expected)
}

/** The shown fields of a delivery, without its times. */
function textOf({
  eventId,
  eventKind,
  status,
  attemptCount,
  failure,
  latestAttempt,
}: Shown): string {
  const { statusCode = '-', error = '-', number = '-' } = latestAttempt ?? {}
  const attempt = `${number} ${statusCode} ${error}`
  return `${eventId} ${eventKind} ${word(status)} ${attemptCount} ${failure}, ${attempt}`
}

const word = (status: DeliveryStatus) =>
  Object.entries(DeliveryStatus).find(([, value]) => value === status)?.[0]

function expectedText({ world }: Drive, { event, state, attempts, failure }: Delivery): string {
  const { id, kind, isExpired } = world.events[event]!
  const last = attempts.at(-1)
  const attempt = last ? `${attempts.length} ${SHOWN[last].status} ${SHOWN[last].error}` : '- - -'
  return `${isExpired ? ' ' : `${id} ${kind}`} ${state} ${attempts.length} ${failure}, ${attempt}`
}

function adoptDelivery(delivery: Delivery, { createdAt, dueAt, completedAt }: Shown): void {
  const { endpoint, sequence, claim } = delivery
  const name = `${endpoint} ${sequence}`
  delivery.created = exact(`${name} created at`, delivery.created, createdAt)
  if (delivery.state !== 'PENDING') same(`${name} due at`, dueAt, undefined)
  else if (claim) claim.lease = exact(`${name} leased until`, claim.lease, dueAt)
  else delivery.due = exact(`${name} due at`, delivery.due, dueAt)
  if (delivery.completed) {
    delivery.completed = exact(`${name} completed at`, delivery.completed, completedAt)
  } else same(`${name} completed at`, completedAt, undefined)
}

/** @returns the range of a shown time, which must be in the given range */
function exact(name: string, { fromMs, toMs }: Range, shown: Timestamp | undefined): Range {
  const ms = shown && timestampMs(shown)
  if (ms === undefined || ms < fromMs || ms > toMs) {
    throw new Error(`${name} ${ms}, not within ${fromMs} and ${toMs}`)
  }
  return { fromMs: ms, toMs: ms }
}

/** Compares every list, whatever the size of its pages, every delivery's attempts, and the statistics. */
export async function compare(drive: Drive): Promise<void> {
  for (const business of businessesOf(drive)) {
    await compareEndpointLists(drive, business)
    await compareDeliveryLists(drive, business)
    await compareStatistics(drive, business)
  }
  for (const delivery of drive.world.deliveries) await compareAttempts(drive, delivery)
}

/** Compares the figures of the hours, which instances store when they stop. */
export async function compareHours(drive: Drive): Promise<void> {
  for (const business of businessesOf(drive)) {
    for (const live of [true, false]) {
      const always = [{ fromMs: 0, toMs: drive.clock.nowMs + 1_000 * HOUR_MS }]
      const hours = await readWebhookHours(drive.durablePool, [idOf(drive, business)], live, always)
      const counts = { attempts: 0, delivered: 0, failed: 0 }
      for (const hour of hours) {
        counts.attempts += hour.attempts
        counts.delivered += hour.delivered
        counts.failed += hour.failed
      }
      const none = { attempts: 0, delivered: 0, failed: 0 }
      const all = drive.world.counts.get(`${business} ${live}`) ?? none
      if (!drive.world.hasCrashed) same(`hours of ${business}`, counts, all)
      // A process counts in memory for two seconds.
      else if (
        Object.entries(all).some(([name, most]) => counts[name as keyof typeof counts] > most)
      )
        same(`hours of ${business} after a crash`, counts, all)
    }
  }
}

const businessesOf = ({ world }: Drive) =>
  new Set([...world.endpoints.values()].map(({ business }) => business))

/** Those that are not deleted, newest first. */
function endpointsOf(drive: Drive, business: string): Endpoint[] {
  return [...drive.world.endpoints.values()]
    .filter((each) => each.business === business && !each.isDeleted)
    .toSorted((one, other) => (idOf(drive, one.name) < idOf(drive, other.name) ? 1 : -1))
}

const PAGE_SIZES = [0, 1, 2]

async function compareEndpointLists(drive: Drive, business: string): Promise<void> {
  const businessId = idOf(drive, business)
  const filters: [object, (endpoint: Endpoint) => boolean][] = [
    [{}, () => true],
    [{ live: false }, ({ live }) => !live],
    [{ status: EndpointStatus.DISABLED }, ({ disabled }) => disabled !== undefined],
    [{ failing: true }, ({ failing }) => failing !== undefined],
  ]
  for (const [filter, isIn] of filters) {
    for (const pageSize of PAGE_SIZES) {
      const ids = await pages(async (pageToken) => {
        const request = { businessId, pageSize, pageToken, ...filter }
        const page = await nextClient(drive).listEndpoints(request)
        return { items: page.endpoints.map(({ id }) => id), next: page.nextPageToken }
      })
      const expected = endpointsOf(drive, business).filter(isIn)
      const names = expected.map(({ name }) => idOf(drive, name))
      same(`endpoints by ${pageSize}, ${JSON.stringify(filter)}`, ids, names)
    }
  }
}

/** The lists of an endpoint, a business and an event, with filters. */
async function compareDeliveryLists(drive: Drive, business: string): Promise<void> {
  const { world } = drive
  const own = endpointsOf(drive, business)
  const all = world.deliveries.filter((each) => own.some(({ name }) => name === each.endpoint))
  const liveOf = ({ endpoint }: Delivery) => world.endpoints.get(endpoint)!.live
  const middle = all[Math.floor(all.length / 2)]
  const sinceMs = middle?.created.fromMs ?? 0
  const businessId = idOf(drive, business)
  const lists: [object, (delivery: Delivery) => boolean][] = [
    [{ businessId }, () => true],
    [{ businessId, live: true }, liveOf],
    [{ businessId, status: DeliveryStatus.FAILED }, ({ state }) => state === 'FAILED'],
    [
      { businessId, statuses: [DeliveryStatus.PENDING, DeliveryStatus.DELIVERED] },
      ({ state }) => state !== 'FAILED',
    ],
    [{ businessId, from: timestampFromMs(sinceMs) }, ({ created }) => created.fromMs >= sinceMs],
    [{ businessId, to: timestampFromMs(sinceMs) }, ({ created }) => created.fromMs < sinceMs],
  ]
  for (const { name } of own) {
    const isPending = ({ endpoint, state }: Delivery) => endpoint === name && state === 'PENDING'
    lists.push([{ endpointId: idOf(drive, name), status: DeliveryStatus.PENDING }, isPending])
  }
  if (middle) {
    const { id: eventId, isExpired } = world.events[middle.event]!
    lists.push([{ eventId, businessId }, ({ event }) => event === middle.event && !isExpired])
  }
  for (const [filter, isIn] of lists) {
    // The list of an event has those of deleted endpoints too.
    const expected = ('eventId' in filter ? world.deliveries : all)
      .filter(isIn)
      .toSorted((one, other) => other.event - one.event || byId(drive, other, one))
      .map((each) => `${idOf(drive, each.endpoint)} ${expectedText(drive, each)}`)
    for (const pageSize of PAGE_SIZES) {
      const found = await pages(async (pageToken) => {
        const page = await nextClient(drive).listDeliveries({ pageSize, pageToken, ...filter })
        const items = page.deliveries.map((each) => `${each.endpointId} ${textOf(each)}`)
        return { items, next: page.nextPageToken }
      })
      same(`deliveries by ${pageSize} of ${Object.keys(filter)}`, found, expected)
    }
  }
}

const byId = (drive: Drive, one: Delivery, other: Delivery) =>
  idOf(drive, one.endpoint) < idOf(drive, other.endpoint) ? -1 : 1

/** What the last day's deliveries of each endpoint came to, by the clock of each instance. */
async function compareStatistics(drive: Drive, business: string): Promise<void> {
  const { world } = drive
  for (const { client, now } of drive.instances) {
    const businessId = idOf(drive, business)
    const { statistics } = await client.getEndpointStatistics({ businessId })
    const fromMs = Math.floor(now() / HOUR_MS) * HOUR_MS - 23 * HOUR_MS
    const expected = endpointsOf(drive, business).map(({ name }) => {
      const all = world.deliveries.filter((each) => each.endpoint === name)
      const lately = all.filter(({ created }) => {
        return created.fromMs >= fromMs && created.fromMs < fromMs + 24 * HOUR_MS
      })
      const count = (list: readonly Delivery[], state: Delivery['state']) =>
        list.filter((each) => each.state === state).length
      const pending = all.filter(({ state }) => state === 'PENDING')
      return [
        idOf(drive, name),
        lately.length,
        sum(lately.map(({ attempts }) => attempts.length)),
        count(lately, 'DELIVERED'),
        count(lately, 'FAILED'),
        pending.length,
        pending.length > 0 ? Math.min(...pending.map(({ created }) => created.fromMs)) : undefined,
      ]
    })
    const shown = statistics.map((each) => [
      each.endpointId,
      each.deliveryCount,
      Number(each.attemptCount),
      each.deliveredCount,
      each.failedCount,
      each.pendingCount,
      each.oldestPendingAt && timestampMs(each.oldestPendingAt),
    ])
    same(`statistics of ${business}`, shown, expected)
    for (const each of statistics) {
      const inHours = sum(each.hours.map(({ deliveredCount }) => deliveredCount))
      same('deliveries of hours', inHours, each.deliveredCount)
    }
  }
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0)

async function compareAttempts(drive: Drive, delivery: Delivery): Promise<void> {
  const { endpoint, sequence, attempts } = delivery
  const { rows } = await drive.durablePool.query<{ id: string }>(
    'select id from webhook_delivery where endpoint_id = $1 and sequence = $2',
    [idOf(drive, endpoint), sequence],
  )
  same(`deliveries of ${endpoint} ${sequence}`, rows.length, 1)
  const shown = await nextClient(drive).getDelivery({ deliveryId: rows[0]!.id })
  const expected = attempts.map((each, index) => [index + 1, SHOWN[each].status])
  const found = shown.attempts.map(({ number, statusCode }) => [number, statusCode])
  same(`attempts of ${endpoint} ${sequence}`, found, expected)
}

/** Fails with both values on separate lines. */
function same(what: string, found: unknown, expected: unknown): void {
  if (isDeepStrictEqual(found, expected)) return
  throw new Error(
    `${what}:\n  ${JSON.stringify(found)}\n  expected:\n  ${JSON.stringify(expected)}`,
  )
}
