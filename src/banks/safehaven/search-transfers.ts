import type { Clock } from '../../core/clock.ts'
import { untilAborted } from '../../core/concurrency.ts'
import { MINUTE_MS } from '../../core/durations.ts'
import { failure } from '../bank.ts'
import { type BankFields, textOf } from '../bank-fields.ts'
import type { FoundTransfer, TransferOrder, TransferState } from '../transfer.ts'

/** A page of the list of transfers, or why there is none. */
export type Page =
  | { readonly kind: 'page'; readonly entries: readonly BankFields[]; readonly hasMore: boolean }
  | { readonly kind: 'denied' | 'unread'; readonly cause: string; readonly sent: boolean }

/** A part of the list. Times in epoch milliseconds. */
export interface Part {
  readonly fromMs: number
  readonly toMs: number
  readonly page: number
}

interface Options {
  readonly clock: Clock
  readonly readPage: (part: Part, signal: AbortSignal) => Promise<Page>
  readonly stateOf: (order: TransferOrder, entry: BankFields) => TransferState
}

/** The most pages of a reading: 30,000 transfers, six days of an account with 5,000 a day. */
const PAGES_MAX = 300

/** A slow page ends the reading. The calls themselves have shorter time-outs. */
const PAGE_MS_MAX = MINUTE_MS

/** Our references in upper case. What others sent from the account is not kept. */
const OURS = /^[0-9A-Z]{24,30}$/

/** A reading of the whole list from a time on. All look-ups share it, as it may have hundreds of pages. */
interface Reading {
  readonly fromMs: number
  /** When it began, by `performance.now()`, which may stop while the machine is suspended, and by the wall clock. */
  readonly beganMs: number
  readonly beganAtMs: number
  /** Its transfers by our reference in upper case. */
  readonly entries: Map<string, BankFields[]>
  /** Whether all of its transfers had a reference. */
  isReferenced: boolean
  /** How long it took, also if it failed; undefined: it has not ended. */
  tookMs: number | undefined
  /** Why it ended before it was complete. */
  failure: Extract<FoundTransfer, { kind: 'unknown' }> | undefined
  readonly ended: Promise<void>
}

/**
 * Searches the list of transfers for an order. A transfer that was not in it when the reading began was not made before then,
 * less the time that the bank takes to list it. The list is not filtered by direction, because the bank does not document the
 * values.
 *
 * A transfer that was sent again has several lines: it is paid if one of them is, and failed only if all are.
 *
 * @returns `isReading` if the look-up ends before the reading: a look-up soon after finds it further, or complete
 */
export function createSearch(options: Options) {
  let current: Reading | undefined
  /** The earliest time that look-ups asked for while a later part was read. */
  let wantedFromMs = Number.POSITIVE_INFINITY
  const ageOf = ({ beganMs, beganAtMs }: Reading) =>
    Math.max(performance.now() - beganMs, options.clock.now() - beganAtMs)
  const isRead = ({ tookMs }: Reading) => tookMs !== undefined
  /** A reading that took long serves for as long again, also if it failed, so that the bank is not asked without a pause. */
  const isFresh = (reading: Reading, { listAgeMsMax = 0 }: TransferOrder) => {
    const { tookMs = 0, failure } = reading
    return ageOf(reading) <= Math.max(2 * tookMs, failure === undefined ? listAgeMsMax : 0)
  }

  return async (order: TransferOrder, signal: AbortSignal): Promise<FoundTransfer> => {
    const { searchFromMs } = order
    const isCovered = current !== undefined && current.fromMs <= searchFromMs
    if (current !== undefined && !isRead(current) && !isCovered) {
      wantedFromMs = Math.min(wantedFromMs, searchFromMs)
      return STILL_READING
    }
    if (current === undefined || (isRead(current) && !(isCovered && isFresh(current, order)))) {
      current = beginReading(options, Math.min(wantedFromMs, searchFromMs))
      wantedFromMs = Number.POSITIVE_INFINITY
    }
    const reading = current
    await untilAborted(reading.ended, signal)
    const states = (reading.entries.get(order.reference) ?? []).map((entry) =>
      options.stateOf(order, entry),
    )
    const paid = states.find(({ kind }) => kind === 'paid')
    if (paid !== undefined) return paid
    if (!isRead(reading) || reading.failure !== undefined) {
      return foundSoFar(states) ?? reading.failure ?? STILL_READING
    }
    const [first, ...rest] = states
    if (first !== undefined) return commonState(first, rest)
    if (!reading.isReferenced) {
      return { kind: 'unknown', cause: 'the list of Safe Haven has transfers without a reference' }
    }
    const cause = 'not in the list of transfers of Safe Haven'
    return { kind: 'not found', cause, ageMs: ageOf(reading) }
  }
}

const STILL_READING = {
  kind: 'unknown',
  cause: 'the list of transfers of Safe Haven is still being read',
  isReading: true,
} as const

function beginReading({ clock, readPage }: Options, fromMs: number): Reading {
  const [beganMs, beganAtMs] = [performance.now(), clock.now()]
  const { promise: ended, resolve } = Promise.withResolvers<void>()
  const reading: Reading = {
    fromMs,
    beganMs,
    beganAtMs,
    entries: new Map(),
    isReferenced: true,
    tookMs: undefined,
    failure: undefined,
    ended,
  }
  const read = async () => {
    for (let page = 0; page < PAGES_MAX; page++) {
      const part = { fromMs, toMs: beganAtMs, page }
      const once = () => readPage(part, AbortSignal.timeout(PAGE_MS_MAX))
      const first = await once()
      // One failure does not discard the pages before.
      const found = first.kind === 'unread' && page > 0 ? await once() : first
      if (found.kind !== 'page') {
        reading.failure = failure('unknown', found)
        return
      }
      for (const entry of found.entries) keep(reading, entry)
      if (!found.hasMore) return
    }
    reading.failure = { kind: 'unknown', cause: 'Safe Haven lists too many transfers to search' }
  }
  void read()
    .catch((error: unknown) => {
      reading.failure = { kind: 'unknown', cause: `the list could not be read: ${error}` }
    })
    .finally(() => {
      reading.tookMs = performance.now() - beganMs
      resolve()
    })
  return reading
}

function keep(reading: Reading, entry: BankFields): void {
  const reference = textOf(entry, 'paymentReference').toUpperCase()
  if (reference === '') reading.isReferenced = false
  if (!OURS.test(reference)) return
  const entries = reading.entries.get(reference)
  if (entries === undefined) reading.entries.set(reference, [entry])
  else entries.push(entry)
}

/** The state of the transfers that were found before the list ended. A failed one may be followed by one that was paid. */
function foundSoFar([first, ...rest]: readonly TransferState[]): TransferState | undefined {
  return first === undefined || first.kind === 'failed' ? undefined : commonState(first, rest)
}

/** What transfers with one reference state, of which none is paid. */
function commonState(first: TransferState, rest: readonly TransferState[]): TransferState {
  if (rest.every(({ kind }) => kind === first.kind)) return first
  const kinds = [first, ...rest].map(({ kind }) => kind).join(', ')
  return { kind: 'unknown', cause: `Safe Haven lists several transfers as ${kinds}` }
}
