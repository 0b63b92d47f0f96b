import { forEachConcurrently } from '../core/concurrency.ts'
import { formatAmount } from '../core/money.ts'
import type { LogEntry } from '../events/read-log.ts'
import type { RequestFormat } from './endpoints/endpoint.ts'

/** `data.reference` of the made-up account. References of real accounts contain neither S nor L. */
export const REFERENCE = 'R-REHEARSALREHEARSAL34'

/** `data.merchant_reference` of the made-up account. The receiver may need a customer with this reference. */
export const MERCHANT_REFERENCE = 'rehearsal'

/** An event that never happened: a payment into the made-up account, or its reversal. */
export interface MadeUpEvent extends Omit<LogEntry, 'payload' | 'position'> {
  readonly kind: 'PAYMENT_NOTIFICATION' | 'PAYMENT_REVERSED'
  readonly transactionId: string
  readonly sessionId: string
  readonly amountMinor: bigint
}

/** The verdict of a step: see RehearsalVerdict in rehearsal.proto. */
type Verdict = 'PASSED' | 'WARNING' | 'FAILED' | 'SKIPPED'

/** A completed step. Its texts are shown to users. */
export interface Step {
  readonly name: string
  readonly expected: string
  readonly happened: string
  readonly verdict: Verdict
  readonly latencyMs: number
  readonly note?: string | undefined
  readonly status?: number | undefined
  readonly responseBody?: string | undefined
  readonly burst?: Burst
}

interface Burst {
  readonly sentCount: number
  readonly failedCount: number
  readonly concurrency: number
  readonly latencyP50Ms: number
  readonly latencyP99Ms: number
  readonly requestsPerSecond: number
}

/** The end of a rehearsal. */
interface Summary {
  readonly verdict: Verdict
  readonly conclusion: string
  readonly books: string
  readonly transactionRefPrefix: string
  readonly creditedCount: number
  readonly creditedMinor: bigint
  readonly reversedCount: number
  readonly endedEarly: boolean
}

/** An item of a rehearsal in progress. */
export type Progress = { readonly step: Step } | { readonly summary: Summary }

/** How a request is signed: like a delivery, or in a way that a correct receiver refuses. */
export type Signature = 'genuine' | 'six minutes old' | 'wrong' | 'missing'

type Refusable = Exclude<Signature, 'genuine'>

/** The response of the receiver. */
export interface Answer {
  /** Undefined without a response. */
  readonly status: number | undefined
  /** Empty if it was acknowledged. */
  readonly error: string
  readonly responseBody: string
  readonly latencyMs: number
}

/** The receiver, and the requests that it is sent. */
export interface Rehearsal {
  readonly format: RequestFormat
  /** Whether it is sent reversals. */
  readonly hasReversals: boolean
  /** Whether it is sent one event at a time, in order. */
  readonly ordered: boolean
  /** The most requests at once. */
  readonly concurrency: number
  /** Requests a second; 0: no limit. */
  readonly rateLimit: number
  /** For one request and its response. */
  readonly timeoutMs: number
  readonly transactionRefPrefix: string
  /** Makes up a payment with a sequence number. */
  pay(sequence: number, amountMinor: bigint): MadeUpEvent
  reverse(payment: MadeUpEvent, sequence: number): MadeUpEvent
  send(event: MadeUpEvent, signature: Signature): Promise<Answer>
  /** Whether to send no more: the caller has left, or the time is over. */
  isOver(): boolean
}

const BURST = 200

/** A burst ends after this time. A rate limit reduces the number of its payments. */
const BURST_MS_MAX = 60_000
const BURST_LIMITED_SECONDS = 20

/** The amounts of genuine payments and of payments that the receiver must refuse. An operator finds them by the amount. */
const AMOUNTS_MINOR = {
  first: 150_050n,
  earlier: 200_000n,
  later: 250_000n,
  stale: 66_666_601n,
  wrong: 66_666_602n,
  unsigned: 66_666_603n,
  burst: 10_000n,
}

/** The acknowledged payments that the books of the receiver must show. */
interface Books {
  readonly credited: bigint[]
  readonly refusable: bigint[]
  reversed: bigint | undefined
}

/** Sends all requests, and yields each completed step, and the summary last. */
export async function* runSteps(rehearsal: Rehearsal): AsyncGenerator<Progress> {
  const books: Books = { credited: [], refusable: [], reversed: undefined }
  const steps: Step[] = []
  const refuse = (signature: Refusable) => () =>
    refusedStep(rehearsal, books, signature, !isAcknowledged(steps[0]))
  const first = rehearsal.pay(1, AMOUNTS_MINOR.first)
  const all = [
    () => firstStep(rehearsal, books, first),
    () => repeatStep(rehearsal, first),
    () => outOfOrderStep(rehearsal, books),
    refuse('six minutes old'),
    refuse('wrong'),
    refuse('missing'),
    () => reversalStep(rehearsal, books, first),
    () => burstStep(rehearsal, books),
  ]
  let ending = ''
  for (const run of all) {
    if (rehearsal.isOver()) ending = 'it took too long'
    if (ending !== '') break
    const { step, unreachable } = await run()
    steps.push(step)
    yield { step }
    if (unreachable !== undefined) ending = `the receiver does not answer (${unreachable})`
  }
  yield { summary: summaryOf(rehearsal, steps, books, ending) }
}

interface Done {
  readonly step: Step
  /** Why the receiver cannot be tested further; undefined: it can. */
  readonly unreachable?: string | undefined
}

async function firstStep(rehearsal: Rehearsal, books: Books, payment: MadeUpEvent): Promise<Done> {
  const answer = await rehearsal.send(payment, 'genuine')
  const judged = judgeAcknowledged(answer, rehearsal, '')
  if (is2xx(answer)) books.credited.push(payment.amountMinor)
  return {
    step: {
      ...judged,
      name: 'A payment',
      expected: `2xx within ${secondsText(rehearsal.timeoutMs / 2)}`,
      note: refusalNote(answer),
    },
    unreachable: answer.status === undefined ? answer.error : undefined,
  }
}

/** Why a genuine payment may have been refused. */
function refusalNote({ status }: Answer): string | undefined {
  if (status === 401 || status === 403) {
    return 'The payment was properly signed: check that the receiver has this secret, and that it verifies the body as it arrived'
  }
  if (status !== undefined && status >= 400 && status < 500) {
    return `If it does not know the account: add a customer with the reference "${MERCHANT_REFERENCE}" (data.merchant_reference)`
  }
  return undefined
}

async function repeatStep(rehearsal: Rehearsal, payment: MadeUpEvent): Promise<Done> {
  const answer = await rehearsal.send(payment, 'genuine')
  return {
    step: {
      ...judgeAcknowledged(answer, rehearsal, 'to a repeat'),
      name: 'The same payment again',
      expected: '2xx: deliveries are repeated',
      note: 'It must not credit the payment twice. That cannot be seen from here: look at its books',
    },
    unreachable: unreachable(answer, rehearsal),
  }
}

/** Sends two payments, the later first. An ordered endpoint gets them in their order, as it always does. */
async function outOfOrderStep(rehearsal: Rehearsal, books: Books): Promise<Done> {
  const { ordered } = rehearsal
  const inOrder = [
    [rehearsal.pay(2, AMOUNTS_MINOR.earlier), 'to the earlier one'],
    [rehearsal.pay(3, AMOUNTS_MINOR.later), 'to the later one'],
  ] as const
  const payments = ordered ? inOrder : inOrder.toReversed()
  const judged: Judged[] = []
  let without: string | undefined
  for (const [payment, what] of payments) {
    const answer = await rehearsal.send(payment, 'genuine')
    if (is2xx(answer)) books.credited.push(payment.amountMinor)
    judged.push(judgeAcknowledged(answer, rehearsal, what))
    without ??= unreachable(answer, rehearsal)
    if (without !== undefined) break
  }
  const decisive = judged.find(({ verdict }) => verdict === worstOf(judged)) ?? judged[0]
  return {
    step: {
      ...NOT_JUDGED,
      ...decisive,
      latencyMs: Math.max(...judged.map(({ latencyMs }) => latencyMs)),
      happened: judged.map(({ happened }) => happened).join(', '),
      name: ordered ? 'Two payments in their order' : 'Two payments, the later one first',
      expected: ordered ? '2xx to both' : '2xx to both: data.sequence states their order',
    },
    unreachable: without,
  }
}

const REFUSED: Readonly<
  Record<
    Refusable,
    {
      readonly name: string
      readonly amountMinor: bigint
      /** What it means if the receiver acknowledges the request. */
      readonly accepted: string
    }
  >
> = {
  'six minutes old': {
    name: 'A payment signed 6 minutes ago',
    amountMinor: AMOUNTS_MINOR.stale,
    accepted: 'accepts a request signed 6 minutes ago: an attacker can repeat one',
  },
  wrong: {
    name: 'A payment with a wrong signature',
    amountMinor: AMOUNTS_MINOR.wrong,
    accepted: 'accepts a wrong signature: anyone can credit payments',
  },
  missing: {
    name: 'A payment without a signature',
    amountMinor: AMOUNTS_MINOR.unsigned,
    accepted: 'accepts a request without a signature: anyone can credit payments',
  },
}

/**
 * Sends a request that a correct receiver refuses. It has the sequence number of the genuine event that follows, so that a
 * receiver that refuses it misses nothing.
 *
 * @param refusesAll whether the receiver refused a genuine payment, too, so that its refusals show nothing
 */
async function refusedStep(
  rehearsal: Rehearsal,
  books: Books,
  signature: Refusable,
  refusesAll: boolean,
): Promise<Done> {
  const { name, amountMinor, accepted } = REFUSED[signature]
  const answer = await rehearsal.send(rehearsal.pay(4, amountMinor), signature)
  if (is2xx(answer)) books.refusable.push(amountMinor)
  const step = {
    name,
    expected: '4xx, such as 401',
    ...factsOf(answer),
  }
  const judge = (verdict: Verdict, happened: string, note?: string): Done => ({
    step: { ...step, verdict, happened, note },
    unreachable: unreachable(answer, rehearsal),
  })
  const { status } = answer
  if (status === undefined) return judge('FAILED', `no answer: ${answer.error}`)
  if (is2xx(answer)) {
    const { legacySignature } = rehearsal.format
    // The signature that such a receiver verifies does not cover the time, so the receiver cannot notice the age.
    if (signature === 'six minutes old' && legacySignature !== null) {
      const text = `answered ${status}: ${accepted}. x-wiaxy-signature does not cover the time`
      return judge('WARNING', text, 'Verify x-wiaxy-signature-256 and x-wiaxy-timestamp instead')
    }
    return judge('FAILED', `answered ${status}: ${accepted}`)
  }
  if (status < 400 || status > 499) {
    return judge('WARNING', `answered ${status}: not accepted, but the right answer is 401`)
  }
  if (refusesAll) {
    const text = `answered ${status}, as to a genuine payment, so this refusal shows nothing`
    return judge('WARNING', text)
  }
  return judge('PASSED', `answered ${status}`)
}

/**
 * A reversal is sent only to a receiver that requests the kind. Inflow would never send it to any other receiver, so a
 * receiver that credits every event must not be blamed for it.
 */
async function reversalStep(
  rehearsal: Rehearsal,
  books: Books,
  payment: MadeUpEvent,
): Promise<Done> {
  const name = 'A reversal of the first payment'
  if (!rehearsal.hasReversals) {
    const expected = 'nothing: it does not receive PAYMENT_REVERSED'
    const note =
      'Reversals then appear only in the console and in listEvents. Name the kind PAYMENT_REVERSED to rehearse them'
    const happened = 'not sent'
    return { step: { name, expected, happened, note, verdict: 'SKIPPED', latencyMs: 0 } }
  }
  const answer = await rehearsal.send(rehearsal.reverse(payment, 4), 'genuine')
  if (is2xx(answer)) books.reversed = payment.amountMinor
  return {
    step: {
      ...judgeAcknowledged(answer, rehearsal, ''),
      name,
      expected: '2xx: its data.type is RESERVED_ACCOUNT_REVERSAL',
      note: 'It must not be credited. That cannot be seen from here: look at its books',
    },
    unreachable: unreachable(answer, rehearsal),
  }
}

async function burstStep(rehearsal: Rehearsal, books: Books): Promise<Done> {
  const { concurrency, rateLimit, hasReversals, timeoutMs } = rehearsal
  const count =
    rateLimit === 0 ? BURST : Math.min(BURST, Math.max(1, rateLimit * BURST_LIMITED_SECONDS))
  const from = hasReversals ? 5 : 4
  const startedTickMs = performance.now()
  const isOver = () => rehearsal.isOver() || performance.now() - startedTickMs > BURST_MS_MAX
  function* payments(): Generator<MadeUpEvent> {
    for (let at = 0; at < count && !isOver(); at++) {
      yield rehearsal.pay(from + at, AMOUNTS_MINOR.burst)
    }
  }
  const judged: Judged[] = []
  await forEachConcurrently(payments(), concurrency, async (payment) => {
    const answer = await rehearsal.send(payment, 'genuine')
    if (is2xx(answer)) books.credited.push(payment.amountMinor)
    judged.push(judgeAcknowledged(answer, rehearsal, ''))
  })
  const tookMs = performance.now() - startedTickMs
  const failed = judged.filter(({ verdict }) => verdict === 'FAILED')
  const latencies = judged.map(({ latencyMs }) => latencyMs).sort((one, other) => one - other)
  const quantile = (part: number) =>
    latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * part))] ?? 0
  const burst = {
    sentCount: judged.length,
    failedCount: failed.length,
    concurrency,
    latencyP50Ms: quantile(0.5),
    latencyP99Ms: quantile(0.99),
    requestsPerSecond: Math.round((judged.length * 10_000) / Math.max(tookMs, 1)) / 10,
  }
  const isSlow = burst.latencyP99Ms > timeoutMs / 2
  const verdict =
    failed.length > 0 ? 'FAILED' : isSlow || judged.length < count ? 'WARNING' : 'PASSED'
  return {
    step: {
      ...NOT_JUDGED,
      ...failed[0],
      verdict,
      burst,
      happened: burstText(burst, count, failed),
      name: `A burst of ${count} payments`,
      expected: `2xx to all, ${concurrency} at once${rateLimit > 0 ? `, ${rateLimit} a second` : ''}`,
      latencyMs: latencies.at(-1) ?? 0,
    },
  }
}

function burstText(burst: Burst, count: number, failed: readonly Judged[]): string {
  const { sentCount, latencyP50Ms, latencyP99Ms, requestsPerSecond } = burst
  const reasons = Map.groupBy(failed, ({ reason }) => reason)
  const failures = [...reasons].map(([reason, { length }]) => `${length} ${reason}`)
  return [
    sentCount < count ? `only ${sentCount} of ${count} were sent in time` : '',
    failed.length === 0
      ? `all ${sentCount} acknowledged`
      : `${failed.length} of ${sentCount} failed: ${failures.slice(0, 5).join(', ')}`,
    `half within ${latencyP50Ms} ms, 99% within ${latencyP99Ms} ms, ${requestsPerSecond} requests a second`,
  ]
    .filter((text) => text !== '')
    .join('; ')
}

/** The judgement of a genuine request. */
interface Judged
  extends Pick<Step, 'happened' | 'verdict' | 'latencyMs' | 'status' | 'responseBody'> {
  /** The outcome without the parts that differ between requests. */
  readonly reason: string
}

const NOT_JUDGED = { happened: 'not sent', verdict: 'WARNING', latencyMs: 0 } as const

/** @param what was sent, such as "to a repeat"; may be empty */
function judgeAcknowledged(answer: Answer, { timeoutMs }: Rehearsal, what: string): Judged {
  const { status, error, latencyMs } = answer
  const facts = factsOf(answer)
  if (status === undefined) {
    return { ...facts, happened: `no answer: ${error}`, reason: error, verdict: 'FAILED' }
  }
  const reason = `answered ${status}`
  const answered = [reason, what].filter((text) => text !== '').join(' ')
  if (!is2xx(answer)) {
    const more = FAILURES[status] ?? (status < 400 ? ': redirects are not followed' : '')
    return { ...facts, happened: `${answered}${more}`, reason, verdict: 'FAILED' }
  }
  if (latencyMs > timeoutMs / 2) {
    const happened = `${answered}, but took ${secondsText(latencyMs)}: Inflow waits ${secondsText(timeoutMs)}`
    return { ...facts, happened, reason, verdict: 'WARNING' }
  }
  return { ...facts, happened: `${answered} in ${latencyMs} ms`, reason, verdict: 'PASSED' }
}

const FAILURES: Readonly<Record<number, string>> = {
  410: ': Inflow disables an endpoint that answers that',
}

const BODY_SHOWN_MAX = 500

/** Shows the body only if the receiver did not acknowledge the request, because it says why. */
function factsOf(answer: Answer) {
  const { status, responseBody, latencyMs } = answer
  return {
    status,
    latencyMs,
    ...(!is2xx(answer) && { responseBody: responseBody.slice(0, BODY_SHOWN_MAX) }),
  }
}

const is2xx = ({ status }: Answer): boolean => status !== undefined && status >= 200 && status < 300

const isAcknowledged = (step: Step | undefined): boolean =>
  step?.verdict === 'PASSED' || step?.verdict === 'WARNING'

/** Why the receiver is unreachable. A receiver that is only too slow gets the next steps, too. */
function unreachable(
  { status, error, latencyMs }: Answer,
  { timeoutMs }: Rehearsal,
): string | undefined {
  return status === undefined && latencyMs < timeoutMs - 50 ? error : undefined
}

function summaryOf(
  rehearsal: Rehearsal,
  steps: readonly Step[],
  books: Books,
  ending: string,
): Summary {
  const { transactionRefPrefix } = rehearsal
  const { credited, reversed } = books
  const creditedMinor = credited.reduce((sum, amount) => sum + amount, 0n)
  return {
    verdict: ending === '' ? worstOf(steps) : 'FAILED',
    conclusion: conclusionOf(steps, ending),
    books: booksText(books, creditedMinor, transactionRefPrefix),
    transactionRefPrefix,
    creditedMinor,
    creditedCount: credited.length,
    reversedCount: reversed === undefined ? 0 : 1,
    endedEarly: ending !== '',
  }
}

function worstOf(steps: readonly Pick<Step, 'verdict'>[]): Verdict {
  const order: readonly Verdict[] = ['FAILED', 'WARNING', 'PASSED']
  return order.find((verdict) => steps.some((step) => step.verdict === verdict)) ?? 'PASSED'
}

function conclusionOf(steps: readonly Step[], ending: string): string {
  const early = ending === '' ? '' : `The rehearsal ended early: ${ending}. `
  const namesOf = (wanted: Verdict) =>
    steps.filter(({ verdict }) => verdict === wanted).map(({ name }) => name.toLowerCase())
  const [failed, warnings] = [namesOf('FAILED'), namesOf('WARNING')]
  if (failed.length > 0)
    return `${early}${countText(failed.length, 'step')} failed: ${failed.join('; ')}.`
  if (warnings.length > 0)
    return `${early}Nothing failed. ${countText(warnings.length, 'warning')}: ${warnings.join('; ')}.`
  return `${early}The receiver answered as a correct one does.`
}

/** The text that an operator compares with the books of the receiver. */
function booksText({ credited, reversed, refusable }: Books, sum: bigint, prefix: string): string {
  const own = `reference ${REFERENCE}, transaction_ref beginning with ${prefix}`
  const lines = [
    `${countText(credited.length, 'payment')} credited, each once, NGN ${formatAmount(sum)} in all (${own}).`,
    ...(reversed === undefined
      ? []
      : [`The payment of NGN ${formatAmount(reversed)} is reversed.`]),
    ...(refusable.length === 0
      ? []
      : [
          `It should have refused ${refusable.map((each) => `NGN ${formatAmount(each)}`).join(', ')}.`,
        ]),
  ]
  return lines.join(' ')
}

const countText = (count: number, noun: string) => `${count} ${noun}${count === 1 ? '' : 's'}`

const secondsText = (ms: number) => `${Math.round(ms / 100) / 10} s`
