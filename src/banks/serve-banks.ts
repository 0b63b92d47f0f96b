import { randomBytes } from 'node:crypto'
import { createNameResolver } from '../core/addresses.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { BANK_CODES, type BankCode, type LiveConnector } from './bank.ts'
import type { BreakerState } from './http/circuit-breaker.ts'
import { createBankHttp, type PooledBankHttp } from './http/create-bank-http.ts'
import type { LiveBank } from './live-bank.ts'
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

/** How a bank treats the calls of this process. */
export interface BankCondition {
  readonly breaker: BreakerState
  /** Why it denied the latest call access; empty if it did not. */
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
export function serveBanks({ clock, log }: Runtime, { liveBanks, metrics }: Options): ServedBanks {
  const live = new Map<BankCode, ServedBank>()
  const conditions = new Map<BankCode, () => BankCondition>()
  const clients: PooledBankHttp[] = []
  const resolve = createNameResolver()
  for (const code of BANK_CODES) {
    const bank = liveBanks[code]
    if (bank === undefined) continue
    const { connector: prepared, limits, allowedCidrs, requery } = bank
    const http = createBankHttp({
      baseUrl: prepared.baseUrl,
      limits,
      clock,
      resolve,
      observe: (result, durationMs) => {
        metrics.request(code, result, durationMs)
        log.debug({ bank: code, result, latency_ms: Math.round(durationMs) }, 'bank call')
      },
      onBreaker: (state) => {
        if (state === 'open') log.warn({ bank: code }, 'circuit breaker of a bank opened')
        else log.info({ bank: code }, 'circuit breaker of a bank closed')
      },
    })
    clients.push(http)
    let denial = ''
    conditions.set(code, () => ({ breaker: http.breakerState(), denial }))
    metrics.breaker(code, http.breakerState)
    metrics.accessDenied(code, () => denial !== '')
    const connector = prepared.connect({
      http,
      clock,
      random: randomBytes,
      warn: (text) => log.warn({ bank: code, found: text }, 'unexpected response of a bank'),
      onAccess(cause = '') {
        if (denial === '' && cause !== '') {
          log.error({ bank: code, cause }, 'bank denies this service access')
        } else if (denial !== '' && cause === '') {
          log.info({ bank: code }, 'bank grants this service access again')
        }
        denial = cause
      },
    })
    // A call sends one request, and another one before it where it needs a token.
    const callTimeoutMs = 2 * limits.timeoutMs
    live.set(code, { connector, callTimeoutMs, allowedCidrs, requery })
  }
  return {
    live,
    conditions,
    close: async () => void (await Promise.all(clients.map((http) => http.close()))),
  }
}
