import { createHash, createHmac } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Code, type ConnectError } from '@connectrpc/connect'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { EndpointProfile, LegacySignature } from '../../gen/inflow/webhook/v1/endpoint_pb.ts'
import {
  type RehearsalStep,
  type RehearsalSummary,
  RehearsalVerdict,
  RehearsalVerdictSchema,
} from '../../gen/inflow/webhook/v1/rehearsal_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { enumName } from '../../src/cli/options.ts'
import { verifyWebhook } from '../../src/client/verify-webhook.ts'
import { STANDARD_FORMAT } from '../../src/webhooks/endpoints/request-format.ts'
import {
  type Answer,
  type Rehearsal,
  runSteps,
  type Step,
} from '../../src/webhooks/rehearsal-steps.ts'
import { callerEnv, runHere } from '../cli/run-inflow.ts'
import { temporaryFolder } from '../support/folder.ts'
import { type ReceivedRequest, type Receiver, startReceiver } from '../support/receiver.ts'
import { useSharedService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'
import { openWebhooks } from './fixture.ts'
import { clientOf } from './harness.ts'

const service = useSharedService()
const client = () => service.client(WebhookService)

let receiver: Receiver
let businessId: string

beforeEach(async () => {
  businessId = (await service.business()).id
  receiver = await startReceiver()
  return receiver.close
})

type Request = Parameters<ReturnType<typeof client>['rehearse']>[0]

async function rehearse(request: Request) {
  const steps: RehearsalStep[] = []
  let summary: RehearsalSummary | undefined
  for await (const { progress } of client().rehearse(request)) {
    expect(summary).toBeUndefined()
    if (progress.case === 'step') steps.push(progress.value)
    if (progress.case === 'summary') summary = progress.value
  }
  const verdicts = steps.map(({ verdict }) => enumName(RehearsalVerdictSchema, verdict))
  return { steps, summary: summary!, verdicts }
}

/** An endpoint of test mode, and its secret. */
async function addEndpoint(more: { profile?: EndpointProfile; textSecret?: string } = {}) {
  const created = await client().createEndpoint({
    businessId,
    url: receiver.url,
    live: false,
    ...more,
  })
  return { endpointId: created.endpoint!.id, secret: created.secret }
}

/** As the guide shows it: each event once, by its id. */
function answerWell(secret: string) {
  const books = new Map<string, string>()
  receiver.answer(({ rawBody, headers }) => {
    const result = verifyWebhook(Buffer.from(rawBody), headers, secret)
    if (!result.ok) return { status: 401 }
    const { event, data } = result.event as { event: string; data: Record<string, string> }
    if (event === 'PAYMENT_NOTIFICATION') books.set(data['transaction_ref']!, data['amount']!)
    return { status: 204 }
  })
  return books
}

test('a correct receiver passes every step, its books are as the summary says, and nothing is stored', async () => {
  const { endpointId, secret } = await addEndpoint()
  const books = answerWell(secret)
  const { verdicts, steps, summary } = await rehearse({ endpointId })
  expect(verdicts).toEqual(Array(8).fill('PASSED'))
  expect(steps.at(-1)?.burst).toMatchObject({ sentCount: 200, failedCount: 0, concurrency: 10 })
  expect(summary).toMatchObject({
    verdict: RehearsalVerdict.PASSED,
    endedEarly: false,
    reversedCount: 1,
    creditedCount: 203,
    creditedMinor: 2_600_050n,
    conclusion: 'The receiver answered as a correct one does.',
  })
  expect(books.size).toBe(203)
  expect([...books.values()].reduce((sum, amount) => sum + Number(amount), 0)).toBe(26_000.5)
  expect([...books.keys()].every((ref) => ref.startsWith(summary.transactionRefPrefix))).toBe(true)
  expect([...books.keys()].every((ref) => /^\d{30}$/.test(ref))).toBe(true)

  // What is sent looks like what the world sends, and follows one sequence.
  const genuine = new Map<number, Record<string, unknown>>()
  for (const { rawBody, headers } of receiver.requests) {
    if (!verifyWebhook(Buffer.from(rawBody), headers, secret).ok) continue
    const { data } = JSON.parse(rawBody)
    expect(data).toMatchObject({
      reference: 'R-REHEARSALREHEARSAL34',
      merchant_reference: 'rehearsal',
      live: false,
      previous_sequence: data.sequence - 1,
    })
    genuine.set(data.sequence, data)
  }
  expect([...genuine.keys()].sort((a, b) => a - b)).toEqual(
    [...Array(204).keys()].map((at) => at + 1),
  )
  expect(genuine.get(4)).toMatchObject({
    type: 'RESERVED_ACCOUNT_REVERSAL',
    status: 'REVERSED',
    amount: '1500.50',
    transaction_ref: genuine.get(1)!['transaction_ref'],
  })
  const [first, repeat] = receiver.requests
  expect(repeat!.headers['webhook-id']).toBe(first!.headers['webhook-id'])

  const stored = ['outbox', 'event_log', 'transaction'].map((table) =>
    service.database.durablePool.query(`select from ${table} where business_id = $1`, [businessId]),
  )
  for (const { rowCount } of await Promise.all(stored)) expect(rowCount).toBe(0)
  const { deliveries } = await client().listDeliveries({ endpointId })
  expect(deliveries).toEqual([])
})

/** A receiver that answers these statuses, without a network. */
const RECEIVER: Omit<Rehearsal, 'send'> = {
  format: STANDARD_FORMAT,
  hasReversals: true,
  ordered: false,
  concurrency: 10,
  rateLimit: 0,
  timeoutMs: 15_000,
  transactionRefPrefix: '999999',
  pay: (sequence, amountMinor) => ({
    kind: 'PAYMENT_NOTIFICATION',
    businessId: 'biz_1',
    eventId: `evt_${sequence}`,
    businessSequence: BigInt(sequence),
    epoch: 1,
    live: false,
    occurredAtMs: 0,
    amountMinor,
    transactionId: `txn_${sequence}`,
    sessionId: `${sequence}`,
  }),
  reverse: (payment) => ({ ...payment, kind: 'PAYMENT_REVERSED' }),
  isOver: () => false,
}

/** The steps for a receiver, and the summary. */
async function stepsWith(send: (...args: Parameters<Rehearsal['send']>) => Partial<Answer>) {
  const steps: Step[] = []
  const answer = { status: 200, error: '', responseBody: '', latencyMs: 5 }
  const progress = runSteps({
    ...RECEIVER,
    send: async (...args) => ({ ...answer, ...send(...args) }),
  })
  for await (const each of progress) {
    if ('summary' in each) return { steps, verdicts: steps.map((step) => step.verdict), ...each }
    steps.push(each.step)
  }
  throw new Error('there was no summary')
}

test('states in words that a receiver accepts everything, and fails on repeats', async () => {
  const seen = new Set<string>()
  const { verdicts, steps, summary } = await stepsWith(({ kind, eventId, amountMinor }) => {
    const id = `${kind} ${eventId} ${amountMinor}`
    if (seen.has(id)) return { status: 500, responseBody: 'duplicate key\nat line 3' }
    seen.add(id)
    return {}
  })
  expect(verdicts).toEqual([
    'PASSED',
    'FAILED',
    'PASSED',
    'FAILED',
    'FAILED',
    'FAILED',
    'PASSED',
    'PASSED',
  ])
  expect(steps[1]).toMatchObject({
    happened: 'answered 500 to a repeat',
    status: 500,
    responseBody: 'duplicate key\nat line 3',
  })
  expect(steps.slice(3, 6).map(({ happened }) => happened)).toEqual([
    'answered 200: accepts a request signed 6 minutes ago: an attacker can repeat one',
    'answered 200: accepts a wrong signature: anyone can credit payments',
    'answered 200: accepts a request without a signature: anyone can credit payments',
  ])
  expect(summary.verdict).toBe('FAILED')
  expect(summary.conclusion).toMatch(/^4 steps failed: the same payment again; /)
  expect(summary.books).toContain(
    'It should have refused NGN 666666.01, NGN 666666.02, NGN 666666.03.',
  )
})

test('names the secret to check if a receiver has another one: then its refusals show nothing', async () => {
  const { verdicts, steps, summary } = await stepsWith(() => ({ status: 401 }))
  expect(verdicts).toEqual([
    'FAILED',
    'FAILED',
    'FAILED',
    'WARNING',
    'WARNING',
    'WARNING',
    'FAILED',
    'FAILED',
  ])
  expect(steps[0]?.note).toMatch(/check that the receiver has this secret/)
  expect(steps.at(-1)?.happened).toMatch(/^200 of 200 failed: 200 answered 401; half within/)
  expect(summary).toMatchObject({ creditedCount: 0, creditedMinor: 0n })
})

test('a receiver that does not answer ends it after the first step, with the reason', async () => {
  const error = 'connection closed without a response'
  const { steps, summary } = await stepsWith(() => ({ status: undefined, error }))
  expect(steps.map(({ happened }) => happened)).toEqual([`no answer: ${error}`])
  expect(summary).toMatchObject({ endedEarly: true, verdict: 'FAILED' })
  expect(summary.conclusion).toContain(`ended early: the receiver does not answer (${error})`)
})

test('a time-out after the first payment fails its step alone', async () => {
  let requests = 0
  const { verdicts } = await stepsWith(() => {
    requests += 1
    return requests === 2 ? { status: undefined, error: 'timed out', latencyMs: 15_000 } : {}
  })
  expect([verdicts.length, verdicts[1]]).toEqual([8, 'FAILED'])
})

test('warns of answers that take over half of the time-out', async () => {
  const { steps } = await stepsWith(() => ({ latencyMs: 7_600 }))
  expect(steps[0]).toMatchObject({
    verdict: 'WARNING',
    happened: 'answered 200, but took 7.6 s: Inflow waits 15 s',
  })
})

test('an ordered endpoint with a rate limit and headers of its own gets what it would get', async () => {
  const created = await client().createEndpoint({
    businessId,
    url: receiver.url,
    live: false,
    options: {
      ordered: true,
      rateLimit: 1_000,
      headers: { headers: [{ name: 'x-gateway-key', value: 's3cret' }] },
    },
  })
  answerWell(created.secret)
  const { verdicts, steps } = await rehearse({ endpointId: created.endpoint!.id })
  expect(verdicts).toEqual(Array(8).fill('PASSED'))
  expect(steps[2]?.name).toBe('Two payments in their order')
  expect(steps.at(-1)?.burst).toMatchObject({ sentCount: 200, concurrency: 1 })
  expect(receiver.requests.every(({ headers }) => headers['x-gateway-key'] === 's3cret')).toBe(true)
  const sequences = receiver.requests
    .filter(
      ({ rawBody, headers }) => verifyWebhook(Buffer.from(rawBody), headers, created.secret).ok,
    )
    .map(({ rawBody }) => JSON.parse(rawBody).data.sequence as number)
  expect(sequences).toEqual([1, ...[...Array(204).keys()].map((at) => at + 1)])
})

const TEXT = 'sk_live_9f86d081884c7d659a2feaa0c55ad015'
const hmac = (text: string) => createHmac('sha256', TEXT).update(text).digest('hex')
const md5 = createHash('md5').update(TEXT).digest('hex')

const wiaxy = (more: object = {}): Request => ({
  businessId,
  candidate: { url: receiver.url, profile: EndpointProfile.WIAXY, secret: TEXT, ...more },
})

test('a candidate of the wiaxy profile is sent no reversal unless it asks for the kind', async () => {
  receiver.answer((request) => ({ status: isGenuine(request) ? 200 : 401 }))
  const without = await rehearse(wiaxy())
  expect(without.verdicts).toEqual([...Array(6).fill('PASSED'), 'SKIPPED', 'PASSED'])
  expect(receiver.requests.some(({ rawBody }) => rawBody.includes('REVERSAL'))).toBe(false)
  const kinds = ['PAYMENT_NOTIFICATION', 'PAYMENT_REVERSED']
  const withThem = await rehearse(wiaxy({ kinds, eventName: 'PAYMENT_NOTIFIFICATION' }))
  expect(withThem.verdicts).toEqual(Array(8).fill('PASSED'))
  expect(JSON.parse(receiver.requests.at(-1)!.rawBody)).toMatchObject({
    event: 'PAYMENT_NOTIFIFICATION',
    data: { customer: { email: 'ada@example.com' }, payer: { first_name: 'REHEARSAL' } },
  })
})

function isGenuine({ headers, rawBody }: ReceivedRequest): boolean {
  const timestamp = Number(headers['x-wiaxy-timestamp'])
  if (!(Math.abs(Date.now() / 1_000 - timestamp) <= 300)) return false
  return headers['x-wiaxy-signature-256'] === hmac(`${timestamp}.${rawBody}`)
}

test('a receiver of the MD5 alone is warned that it cannot see how old a request is', async () => {
  receiver.answer(({ headers }) => ({ status: headers['x-wiaxy-signature'] === md5 ? 200 : 401 }))
  const { verdicts, steps } = await rehearse(wiaxy({ legacySignature: LegacySignature.MD5 }))
  expect(verdicts.slice(3, 6)).toEqual(['WARNING', 'PASSED', 'PASSED'])
  expect(steps[3]?.happened).toMatch(/x-wiaxy-signature does not cover the time$/)
})

test('refuses live endpoints, private addresses, and receivers that are sent no payments', async () => {
  const live = await client().createEndpoint({ businessId, url: receiver.url })
  await expect(rehearse({ endpointId: live.endpoint!.id })).rejects.toMatchObject({
    code: Code.FailedPrecondition,
    rawMessage: expect.stringContaining('must not reach it with a genuine signature'),
  })
  await expect(rehearse(wiaxy({ url: 'http://10.0.0.1/' }))).rejects.toMatchObject({
    code: Code.InvalidArgument,
  })
  await expect(rehearse(wiaxy({ kinds: ['PAYMENT_REVERSED'] }))).rejects.toMatchObject({
    code: Code.FailedPrecondition,
  })
  await expect(rehearse(wiaxy({ secret: '' }))).rejects.toMatchObject({
    code: Code.InvalidArgument,
  })
  const standard = { profile: EndpointProfile.STANDARD }
  await expect(rehearse(wiaxy(standard))).rejects.toMatchObject({ code: Code.InvalidArgument })
  expect(receiver.requests).toEqual([])
})

test('one at a time of a business; a caller that leaves stops it', async () => {
  const { endpointId } = await addEndpoint()
  const left = Promise.withResolvers<void>()
  receiver.answer(() => ({
    status: 200,
    ...(receiver.requests.length > 1 && { after: left.promise }),
  }))
  const gone = new AbortController()
  const running = client().rehearse({ endpointId }, { signal: gone.signal })[Symbol.asyncIterator]()
  await running.next()
  await expect(rehearse(wiaxy())).rejects.toMatchObject({ code: Code.ResourceExhausted })
  gone.abort()
  await expect(running.next()).rejects.toMatchObject({ code: Code.Canceled })
  left.resolve()
  const deaf = wiaxy({ url: 'http://127.0.0.1:9/' })
  const isRefused = (error: ConnectError) => error.code !== Code.ResourceExhausted
  await waitUntil(() => rehearse(deaf).then(() => true, isRefused))
  // Of nine steps, those that were on their way.
  expect(receiver.requests.length).toBeLessThan(8)
})

test('sends nothing to a name that resolves to a private address', async () => {
  const resolve = async () => [{ address: '10.0.0.1', family: 4 as const }]
  const webhooks = openWebhooks(service.database, { resolve })
  onTestFinished(() => webhooks.stop())
  const target = wiaxy({ url: 'https://shop.example.com/hooks' })
  const happened: string[] = []
  for await (const { progress } of clientOf(webhooks).rehearse(target)) {
    if (progress.case === 'step') happened.push(progress.value.happened)
  }
  expect(happened).toEqual(['no answer: refused: resolves to a private address (10.0.0.1)'])
})

const cli = (...args: string[]) => runHere(['webhook', 'rehearse', ...args], callerEnv(service))

test('the command prints each step in words, and ends with 1 if one failed', async () => {
  const { endpointId, secret } = await addEndpoint()
  answerWell(secret)
  const good = await cli(endpointId)
  expect(good).toMatchObject({ code: 0, stderr: '' })
  expect(good.stdout).toMatch(/^PASSED {3}A payment\n {9}expected {2}2xx within 7\.5 s\n/)
  expect(good.stdout).toMatch(
    /Its books should show: 203 payments credited, each once, NGN 26000\.50/,
  )
  receiver.answer({ status: 200 })
  const secretFile = join(temporaryFolder(), 'secret')
  writeFileSync(secretFile, secret)
  const url = ['--business', businessId, '--url', receiver.url]
  const bad = await cli(...url, '--secret-file', secretFile)
  expect(bad.code).toBe(1)
  expect(bad.stdout).toContain('FAILED   A payment with a wrong signature')
  expect(bad.stderr).toMatch(/3 steps failed: /)
  const json = await cli(...url, '--secret-file', secretFile, '--json')
  const lines = json.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(lines.at(-1).summary).toMatchObject({ verdict: 'REHEARSAL_VERDICT_FAILED' })
  expect(lines).toHaveLength(9)
})

test.each([
  [[], /give an endpoint of test mode, or --url/],
  [['--url', 'http://127.0.0.1:9/'], /give --secret-file <path>: the receiver verifies/],
  [['--url', 'http://127.0.0.1:9/', '--profile', 'wiaxy'], /give --text-secret-file <path>/],
  [['ep_x', '--url', 'http://127.0.0.1:9/'], /not both/],
  [['ep_x', '--profile', 'wiaxy'], /their flags are for --url/],
])('the command names what is missing: %s', async (args, expected) => {
  const { code, stderr } = await cli(...args)
  expect(code).toBe(2)
  expect(stderr).toMatch(expected)
})
