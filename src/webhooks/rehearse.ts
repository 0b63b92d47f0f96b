import { randomInt } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import type { BankNames } from '../banks/bank.ts'
import { findBusiness } from '../businesses/get-business.ts'
import type { TimeText } from '../core/clock.ts'
import { assert, Fault, invalidFields } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { readLogState } from '../events/log-state.ts'
import { connectionOf } from './connections/apply-connection.ts'
import type { Connection } from './connections/connection.ts'
import { createConnectedSender } from './connections/send-connected.ts'
import { CONCURRENCY_DEFAULT, type EndpointContext } from './endpoints/endpoint.ts'
import { activeSecrets, lockEndpoint } from './endpoints/list-endpoints.ts'
import { WIAXY_KINDS } from './endpoints/request-format.ts'
import { endpointFaults } from './endpoints/update-endpoint.ts'
import { type Candidate, toLogEntry } from './rehearsal-message.ts'
import {
  type Answer,
  type MadeUpEvent,
  type Progress,
  runSteps,
  type Signature,
} from './rehearsal-steps.ts'
import { createToWebhookBody } from './sender/body.ts'
import type { HttpClient } from './sender/http-client.ts'
import { decryptSecret, newSecret, newTextSecret, signedHeaders } from './sender/sign.ts'

/** An endpoint by its id, or a receiver without an endpoint. */
type RehearsalTarget = { readonly endpointId: string } | { readonly candidate: Candidate }

/** The receiver of the requests, with its secrets. */
interface Receiver extends Omit<Candidate, 'secret'> {
  /** The endpoint's id, or the origin of the URL. */
  readonly auditedAs: string
  /** Newest first. */
  readonly secrets: readonly [string, ...string[]]
  readonly ordered: boolean
  readonly concurrency: number
  readonly rateLimit: number
  readonly connection: Connection | undefined
}

/** Yields each completed step of a rehearsal, and the summary last. Sends no more requests once the signal is aborted. */
export type Rehearse = (
  target: RehearsalTarget,
  signal: AbortSignal,
  actor: Actor,
) => AsyncGenerator<Progress>

interface RehearseOptions {
  readonly context: EndpointContext
  readonly timeText: TimeText
  readonly bankNames: BankNames
  readonly httpClient: HttpClient
  /** The bound of the HTTP client for one request and its response. */
  readonly requestTimeoutMs: number
}

/** The most rehearsals of one process. */
const REHEARSALS_MAX = 4

/** Nothing more is sent after this time. */
const REHEARSAL_MS_MAX = 180_000

const STALE_MS = 6 * 60_000

/**
 * Creates the use case. It uses the HTTP client of deliveries, with the same rules for addresses, the same proxy and the
 * same bounds, and stores only an audit entry.
 *
 * It throws Fault not_found, not_rehearsable (an endpoint of live mode, or an endpoint that is not sent payments),
 * validation_failed (the URL, a kind), too_many_rehearsals.
 */
export function createRehearse(options: RehearseOptions): Rehearse {
  const { context, httpClient, requestTimeoutMs: timeoutMs } = options
  const toWebhookBody = createToWebhookBody(options.timeText, options.bankNames)
  const sendConnected = createConnectedSender(httpClient, context.clock)
  const claim = createBusinessSlots()
  const createSend = ({ url, format, secrets, connection, ...receiver }: Receiver) => {
    // Connections of its own, so that requests of a rehearsal and deliveries do not wait for each other.
    const endpointId = `rehearsal of ${receiver.businessId}`
    const to = { endpointId, url, concurrency: receiver.concurrency }
    const forged = format.profile === 'WIAXY' ? newTextSecret() : newSecret()
    const waitTurn = createPace(receiver.rateLimit)
    return async (event: MadeUpEvent, signature: Signature): Promise<Answer> => {
      await waitTurn()
      const { businessSequence: sequence, eventId } = event
      const body = Buffer.from(toWebhookBody(toLogEntry(event), Number(sequence) - 1, format))
      const signedAtMs = context.clock.now() - (signature === 'six minutes old' ? STALE_MS : 0)
      const headers = signedHeaders(
        {
          eventId,
          body,
          timestampSeconds: Math.floor(signedAtMs / 1_000),
          secrets: signature === 'wrong' ? [forged] : secrets,
        },
        format,
      )
      const sent = signature === 'missing' ? withoutSignatures(headers) : headers
      const startedTickMs = performance.now()
      const outcome = connection
        ? await sendConnected(connection, to, sent, body)
        : await httpClient.post(to, sent, body)
      return { ...outcome, latencyMs: Math.round(performance.now() - startedTickMs) }
    }
  }
  return async function* rehearse(target, signal, actor) {
    const receiver = await openReceiver(context, target)
    const { format, ordered, concurrency, rateLimit } = receiver
    const release = claim(receiver.businessId)
    // After the caller has left, the generator may never be resumed or ended.
    signal.addEventListener('abort', release, { once: true })
    try {
      await audit(context, receiver, actor)
      const endTickMs = performance.now() + REHEARSAL_MS_MAX
      const steps = runSteps({
        format,
        ordered,
        concurrency,
        rateLimit,
        timeoutMs,
        ...(await createEvents(options, receiver.businessId)),
        hasReversals: receiver.kinds.length === 0 || receiver.kinds.includes('PAYMENT_REVERSED'),
        send: createSend(receiver),
        isOver: () => signal.aborted || performance.now() > endTickMs,
      })
      for await (const progress of steps) {
        // No request follows the summary, so its reader may start the next rehearsal.
        if ('summary' in progress) release()
        yield progress
      }
    } finally {
      release()
    }
  }
}

/** @throws Fault too_many_rehearsals */
function createBusinessSlots(): (businessId: string) => () => void {
  const inProgress = new Set<string>()
  return (businessId) => {
    if (inProgress.has(businessId)) {
      throw new Fault('too_many_rehearsals', 'A rehearsal of this business is in progress')
    }
    if (inProgress.size >= REHEARSALS_MAX) {
      const text = `${REHEARSALS_MAX} rehearsals are in progress: try again in some minutes`
      throw new Fault('too_many_rehearsals', text)
    }
    inProgress.add(businessId)
    let isHeld = true
    return () => {
      if (isHeld) inProgress.delete(businessId)
      isHeld = false
    }
  }
}

/** @throws Fault not_found, not_rehearsable, validation_failed */
async function openReceiver(context: EndpointContext, target: RehearsalTarget): Promise<Receiver> {
  const receiver =
    'endpointId' in target
      ? await openEndpoint(context, target.endpointId)
      : await openCandidate(context, target.candidate)
  if (receiver.kinds.length > 0 && !receiver.kinds.includes('PAYMENT_NOTIFICATION')) {
    throw new Fault('not_rehearsable', 'The receiver gets no payment events (PAYMENT_NOTIFICATION)')
  }
  return receiver
}

async function openEndpoint(context: EndpointContext, endpointId: string): Promise<Receiver> {
  const { database, encrypter, clock } = context
  return database.orm.em.fork().transactional(async (em) => {
    const endpoint = await lockEndpoint(em, endpointId)
    if (endpoint.live) {
      const text =
        'The endpoint is of live mode: payments that never happened must not reach it with a genuine signature. ' +
        'Rehearse with an endpoint of test mode, or with the URL of a receiver'
      throw new Fault('not_rehearsable', text)
    }
    const signing = (await activeSecrets(endpoint, clock.now()))
      .filter(({ isNext }) => !isNext)
      .map(({ number, secretEncrypted }) =>
        decryptSecret(encrypter, { endpointId, number }, Buffer.from(secretEncrypted)),
      )
    const [newest, ...earlier] = signing
    assert(newest !== undefined, 'an endpoint has a secret that signs')
    return {
      businessId: endpoint.business.id,
      url: endpoint.url,
      kinds: endpoint.kinds,
      auditedAs: endpointId,
      format: endpoint.format,
      secrets: [newest, ...earlier],
      ordered: endpoint.ordered,
      concurrency: endpoint.ordered ? 1 : endpoint.concurrency,
      rateLimit: endpoint.rateLimit,
      connection: connectionOf(encrypter, endpoint),
    }
  })
}

async function openCandidate(
  context: EndpointContext,
  { secret, ...candidate }: Candidate,
): Promise<Receiver> {
  const { businessId, url, format } = candidate
  const faults = endpointFaults({ ...candidate, connection: {} }, context)
  if (faults.length > 0) {
    throw invalidFields(faults.map((fault) => ({ ...fault, field: `candidate.${fault.field}` })))
  }
  await findBusiness(context.database.orm.em.fork(), businessId)
  const isDefault = format.profile === 'WIAXY' && candidate.kinds.length === 0
  return {
    ...candidate,
    kinds: isDefault ? WIAXY_KINDS : candidate.kinds,
    auditedAs: new URL(url).origin,
    secrets: [secret],
    ordered: false,
    concurrency: CONCURRENCY_DEFAULT,
    rateLimit: 0,
    connection: undefined,
  }
}

/** Records who let Inflow send signed payments that never happened, and the origin of the URL. */
async function audit(
  { database: { orm } }: EndpointContext,
  { auditedAs: targetId, businessId, url }: Receiver,
  actor: Actor,
): Promise<void> {
  const details = { origin: new URL(url).origin }
  await orm.em.fork().transactional(async (em) => {
    await appendAudit(em, actor, { action: 'endpoint.rehearse', targetId, businessId, details })
  })
}

/** Makes up events whose session ids no other rehearsal uses: 30 digits, as NIBSS assigns them. */
async function createEvents({ context, timeText }: RehearseOptions, businessId: string) {
  const { database, clock } = context
  const { epoch } = await readLogState(database.durablePool)
  const digits = timeText.format(clock.now()).replaceAll(/\D/g, '').slice(2)
  const transactionRefPrefix = `999999${digits}${`${randomInt(100_000_000)}`.padStart(8, '0')}`
  let made = 0
  const common = (sequence: number) => {
    const occurredAtMs = clock.now()
    const eventId = newId('evt', occurredAtMs)
    // Events of test mode also have `live` false.
    return {
      businessId,
      epoch,
      eventId,
      occurredAtMs,
      live: false,
      businessSequence: BigInt(sequence),
    }
  }
  return {
    transactionRefPrefix,
    pay(sequence: number, amountMinor: bigint): MadeUpEvent {
      made += 1
      return {
        ...common(sequence),
        kind: 'PAYMENT_NOTIFICATION',
        transactionId: newId('txn', clock.now()),
        sessionId: `${transactionRefPrefix}${`${made}`.padStart(4, '0')}`,
        amountMinor,
      }
    },
    reverse: (payment: MadeUpEvent, sequence: number): MadeUpEvent => ({
      ...payment,
      ...common(sequence),
      kind: 'PAYMENT_REVERSED',
    }),
  }
}

function withoutSignatures(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !/signature/.test(name)))
}

/** @param perSecond 0: no limit */
function createPace(perSecond: number): () => Promise<void> {
  let nextTickMs = 0
  return async () => {
    if (perSecond === 0) return
    const nowTickMs = performance.now()
    const turnTickMs = Math.max(nextTickMs, nowTickMs)
    nextTickMs = turnTickMs + 1_000 / perSecond
    if (turnTickMs > nowTickMs) await delay(turnTickMs - nowTickMs)
  }
}
