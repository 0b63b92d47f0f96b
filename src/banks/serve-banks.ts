import { randomBytes } from 'node:crypto'
import { createNameResolver } from '../core/addresses.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { BANK_CODES, type BankCode, type LiveConnector } from './bank.ts'
import type { LiveBank } from './connectors.ts'
import type { BankApi } from './http/bank-http.ts'
import type { BreakerState } from './http/circuit-breaker.ts'
import {
  type BankHttpLimits,
  createBankHttp,
  type PooledBankHttp,
} from './http/create-bank-http.ts'
import type { BankMetrics } from './metrics.ts'

/** A live bank with its connector. */
export interface ServedBank {
  readonly connector: LiveConnector
  /** How long one call of the connector may take, with all of its requests. */
  readonly callTimeoutMs: number
  readonly allowedCidrs: readonly string[]
  /** Whether to requery payments even if a signature covers the notification. */
  readonly requery: boolean
}

/** The condition of a bank for this process: its circuit breaker, and whether it denies access. */
export interface BankCondition {
  readonly breaker: BreakerState
  /** The reason why the bank denied the latest call access; empty if it did not. */
  readonly denial: string
}

interface ServedBanks {
  readonly live: ReadonlyMap<BankCode, ServedBank>
  readonly conditions: ReadonlyMap<BankCode, () => BankCondition>
  /** Aborts the requests in progress. */
  close(): Promise<void>
}

interface Options {
  readonly liveBanks: Readonly<Partial<Record<BankCode, LiveBank>>>
  readonly metrics: BankMetrics
}

/** Creates the connectors of the live banks. Sends no request yet. */
export function serveBanks(runtime: Runtime, { liveBanks, metrics }: Options): ServedBanks {
  const live = new Map<BankCode, ServedBank>()
  const conditions = new Map<BankCode, () => BankCondition>()
  const apis: ServedApi[] = []
  const createApi = createApis(runtime, metrics)
  for (const code of BANK_CODES) {
    const bank = liveBanks[code]
    if (bank === undefined) continue
    const { connector: prepared, limits, allowedCidrs, requery } = bank
    const ofBank: ServedApi[] = []
    const apiAt = (baseUrl: string): BankApi => {
      const api = createApi(code, baseUrl, limits)
      ofBank.push(api)
      return api
    }
    const connector = prepared.connect({
      ...apiAt(prepared.baseUrl),
      apiAt,
      clock: runtime.clock,
      random: randomBytes,
      warn: (text) =>
        runtime.log.warn({ bank: code, found: text }, 'unexpected response of a bank'),
    })
    apis.push(...ofBank)
    const condition = () => worstOf(ofBank)
    conditions.set(code, condition)
    metrics.breaker(code, () => condition().breaker)
    metrics.accessDenied(code, () => condition().denial !== '')
    // A call sends one request, and before it another one if it needs a token.
    const callTimeoutMs = 2 * limits.timeoutMs
    live.set(code, { connector, callTimeoutMs, allowedCidrs, requery })
  }
  return {
    live,
    conditions,
    close: async () => void (await Promise.all(apis.map(({ http }) => http.close()))),
  }
}

interface ServedApi extends BankApi {
  readonly http: PooledBankHttp
  condition(): BankCondition
}

/** @returns a function that creates the client of an API of a bank */
function createApis({ clock, log }: Runtime, metrics: BankMetrics) {
  const resolve = createNameResolver()
  return (bank: BankCode, baseUrl: string, limits: BankHttpLimits): ServedApi => {
    const http = createBankHttp({
      baseUrl,
      limits,
      clock,
      resolve,
      observe: (result, durationMs) => {
        metrics.request(bank, result, durationMs)
        log.debug({ bank, result, latency_ms: Math.round(durationMs) }, 'bank call')
      },
      onBreaker: (state) => {
        if (state === 'open') log.warn({ bank }, 'circuit breaker of a bank opened')
        else log.info({ bank }, 'circuit breaker of a bank closed')
      },
    })
    let denial = ''
    return {
      http,
      condition: () => ({ breaker: http.breakerState(), denial }),
      onAccess(cause = '') {
        if (denial === '' && cause !== '') {
          log.error({ bank, cause }, 'bank denies this service access')
        } else if (denial !== '' && cause === '') {
          log.info({ bank }, 'bank grants this service access again')
        }
        denial = cause
      },
    }
  }
}

/** The condition of a bank is the worst condition of its APIs. */
function worstOf(apis: readonly ServedApi[]): BankCondition {
  const all = apis.map((api) => api.condition())
  const tripped = (['open', 'half-open'] as const).find((state) =>
    all.some(({ breaker }) => breaker === state),
  )
  const denied = all.find(({ denial }) => denial !== '')
  return { breaker: tripped ?? 'closed', denial: denied?.denial ?? '' }
}
