import { z } from 'zod'
import type { RateLimit } from '../auth/rate-limits/token-bucket.ts'
import { BANK_CODES, BANK_FACTS, type BankCode, type BankNames } from '../banks/bank.ts'
import { CONNECTORS, type Connectors, type LiveBank, readLiveBank } from '../banks/connectors.ts'
import { HOUR_MS, MINUTE_MS } from '../core/durations.ts'
import { readConsole } from './console-settings.ts'
import { SERVICE_SETTINGS, type ServiceSettings } from './service-settings.ts'
import { createSettingReader, type Faults } from './settings.ts'
import { readTracing, TRACING_SETTINGS, type TracingConfig } from './tracing-settings.ts'

/** All settings, read from the environment once and frozen. */
export type Config = Readonly<ReturnType<typeof composeConfig>>

/** Paths of PEM files, which are read when the servers start. */
export type TlsFiles = NonNullable<Config['tls']>

/** Whether the simulated bank serves a bank, or the connector to the real bank. */
type BankMode = 'sandbox' | 'live'

type Banks = Readonly<Record<BankCode, BankMode>>

/** Thrown for invalid settings, with one line for each fault. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly faults: readonly string[]

  constructor(faults: readonly string[]) {
    super(faults.join('\n'))
    this.faults = faults
  }
}

/**
 * Reads the settings. Nothing else reads the environment.
 *
 * @param connectors the connectors to the banks that can be live
 * @throws ConfigError with all invalid settings
 */
export function readConfig(env: NodeJS.ProcessEnv, connectors: Connectors = CONNECTORS): Config {
  const faults: Faults = new Map()
  const read = createSettingReader(env, faults)
  const settings = read(SERVICE_SETTINGS)
  const traced = read(TRACING_SETTINGS)
  const banks = read(z.object({ BANKS: createBanksField(connectors) }))?.banks
  const liveBanks: Partial<Record<BankCode, LiveBank>> = {}
  for (const code of BANK_CODES) {
    const prepare = connectors[code]
    if (banks?.[code] !== 'live' || !prepare) continue
    const bank = readLiveBank(code, prepare, env, faults)
    if (bank) liveBanks[code] = bank
  }
  const bankNames = readBankNames(env, faults)
  if (faults.size > 0 || !settings || !traced || !banks) throw new ConfigError([...faults.values()])
  return Object.freeze(composeConfig(settings, banks, liveBanks, bankNames, readTracing(traced)))
}

function composeConfig(
  settings: ServiceSettings,
  banks: Banks,
  liveBanks: Readonly<Partial<Record<BankCode, LiveBank>>>,
  bankNames: BankNames,
  tracing: TracingConfig | undefined,
) {
  const {
    reconcileWindowHours,
    reconcileIntervalMinutes,
    reconcileGraceMinutes,
    webhookLeaseSeconds,
    databasePooling,
    databasePreparedStatements: preparedStatements,
    tlsCert: cert,
    tlsKey: key,
    tlsClientCa: clientCa,
    httpInternal,
    console: consoleSwitch,
    sessionIdleMinutes,
    sessionMaxHours,
    publicUrl,
    oidcIssuer,
    oidcClientId,
    oidcClientSecret,
    oidcName,
    oidcRequestScopes,
    oidcScopesClaim,
    oidcBusinessesClaim,
    oidcRoles,
    relayUrl,
    relayFormat,
    relayCredentials,
    relayTlsCa,
    relayReplicas,
    connectionsPerAddressMax,
    rateLimitKey,
    rateLimitToken,
    rateLimitAddress,
    rateLimitFailed,
    ...rest
  } = settings
  // The embedded database is for development, so load comes from the developer's own machine.
  const embedded = settings.databaseUrl === undefined
  const internal = httpInternal === undefined ? clientCa === undefined : httpInternal === 'on'
  const limit = (set: RateLimit | 'off' | undefined, fallback?: RateLimit) =>
    set === 'off' ? undefined : (set ?? (embedded ? undefined : fallback))
  return {
    ...rest,
    banks,
    /** Undefined: nothing is traced. */
    tracing,
    /** The settings of the live banks. */
    liveBanks,
    /** The displayed names of all banks, including simulated ones. */
    bankNames,
    /** Whether the sandbox opens live accounts at the banks that it serves. */
    simulatesLiveAccounts: embedded || settings.allowSimulatedLiveAccounts,
    /** When reconciliation searches live banks for payments without a notification. */
    reconcile: {
      /** How far back reconciliation searches; 0: never. */
      windowMs: reconcileWindowHours * HOUR_MS,
      /** The interval of reconciliation runs; 0: never. */
      intervalMs: reconcileIntervalMinutes * MINUTE_MS,
      /** Younger payments are left out, because their notifications may still arrive. */
      graceMs: reconcileGraceMinutes * MINUTE_MS,
    },
    pooler: { transactionPooling: databasePooling === 'transaction', preparedStatements },
    webhookLeaseMs: webhookLeaseSeconds * 1_000,
    /** Undefined: no TLS. If `clientCa` is set, gRPC clients need a certificate that it signed. */
    tls: cert !== undefined && key !== undefined ? { cert, key, clientCa } : undefined,
    /** Off by default if the gRPC server requires client certificates, so that a token alone gives no access. */
    httpInternal: internal,
    console: readConsole(settings, internal),
    /** The NATS servers to which the event log is published; undefined: none. */
    relay: relayUrl && {
      ...relayUrl,
      format: relayFormat,
      credentialsFile: relayCredentials,
      caFile: relayTlsCa,
      replicas: relayReplicas,
    },
    connectionsPerAddressMax: connectionsPerAddressMax ?? (embedded ? 10_000 : 1_000),
    /** Rate limits of keys, tokens and addresses; undefined: unlimited. */
    rateLimits: {
      key: limit(rateLimitKey, { perSecond: 1_000, burst: 2_000 }),
      token: limit(rateLimitToken),
      address: limit(rateLimitAddress, { perSecond: 2_000, burst: 4_000 }),
      failed: limit(rateLimitFailed),
    },
  }
}

/** `BANK_<CODE>_NAME` */
const BANK_NAME = z
  .string()
  .regex(/^[^\p{C}\p{Zl}\p{Zp}]{1,100}$/u, 'must be 1 to 100 printable characters')

function readBankNames(env: NodeJS.ProcessEnv, faults: Faults): BankNames {
  const names = BANK_CODES.map((code) => {
    const read = createSettingReader(env, faults, `BANK_${code}_`)
    const schema = z.object({ NAME: BANK_NAME.default(BANK_FACTS[code].name) })
    return [code, read(schema)?.name ?? ''] as const
  })
  return Object.fromEntries(names) as BankNames
}

/** `9PSB=live,PALMPAY=sandbox`: other banks are `sandbox`. */
function createBanksField(connectors: Connectors) {
  return z
    .string()
    .default('')
    .transform((text, { addIssue }): Banks => {
      const banks = Object.fromEntries(BANK_CODES.map((code) => [code, 'sandbox' as BankMode]))
      for (const pair of text === '' ? [] : text.split(',')) {
        const [code = '', mode = ''] = pair.split('=').map((part) => part.trim())
        if (banks[code] === undefined) {
          addIssue(`names an unknown bank "${code}"; known: ${BANK_CODES.join(', ')}`)
        } else if (mode !== 'sandbox' && mode !== 'live') {
          addIssue(`must be ${code}=sandbox or ${code}=live`)
        } else if (mode === 'live' && connectors[code as BankCode] === undefined) {
          addIssue(`has ${code}=live, but this version supports only the sandbox`)
        } else banks[code] = mode
      }
      return banks as Banks
    })
}
