import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { type Config, ConfigError, readConfig } from '../config/config.ts'
import { createFindings, type Finding } from './finding.ts'

/** A token or key with fewer different characters was hardly made at random. */
const DISTINCT_MIN = 12
const TOKEN_LENGTH_MIN = 32

const DAY_MS = 86_400_000
const EXPIRY_NOTICE_DAYS = 14

interface Settings {
  /** Undefined when they cannot be read. */
  readonly config: Config | undefined
  readonly findings: readonly Finding[]
}

/** Whether the settings can be read, and which of them are weak where they are used. */
export function checkSettings(env: NodeJS.ProcessEnv): Settings {
  const findings = createFindings('Settings')
  try {
    const config = readConfig(env)
    const { host, httpPort, grpcPort } = config
    findings.ok(`all can be read: HTTP at ${host}:${httpPort}, gRPC at ${host}:${grpcPort}`)
    checkAddress(config, findings)
    checkSecrets(config, findings)
    checkOperation(config, findings)
    return { config, findings: findings.all }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const fault of error.faults)
      findings.fail(fault, 'the service does not start until it is right')
    return { config: undefined, findings: findings.all }
  }
}

type Findings = ReturnType<typeof createFindings>

function checkAddress(
  { host, grpcReflection, databaseUrl, tls }: Config,
  findings: Findings,
): void {
  if (tls !== undefined) checkCertificate(tls.cert, findings)
  if (isLoopback(host)) {
    findings.ok('both doors are open to this machine alone')
    return
  }
  if (tls === undefined) {
    findings.warn(
      `HOST ${host} opens the doors to others, and what goes through them is not encrypted`,
      'set TLS_CERT and TLS_KEY, or end TLS in a proxy before them that alone can reach them',
    )
  }
  if (grpcReflection) {
    findings.warn(
      'GRPC_REFLECTION shows the contract to whoever reaches the gRPC door',
      'set GRPC_REFLECTION=off, unless its callers need it',
    )
  }
  if (databaseUrl === undefined) {
    findings.warn(
      'the embedded database serves others than this machine',
      'it is for development: set DATABASE_URL for anything else',
    )
  }
}

function checkCertificate(file: string, findings: Findings): void {
  try {
    const { validToDate } = new X509Certificate(readFileSync(file))
    const leftDays = Math.floor((validToDate.getTime() - Date.now()) / DAY_MS)
    const until = validToDate.toISOString().slice(0, 10)
    const advice = 'put a new one in its place, and send the service SIGHUP'
    if (leftDays < 0) findings.fail(`TLS_CERT expired on ${until}`, advice)
    else if (leftDays < EXPIRY_NOTICE_DAYS) findings.warn(`TLS_CERT expires on ${until}`, advice)
    else findings.ok(`TLS_CERT is valid until ${until}`)
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error)
    findings.fail(`TLS_CERT cannot be read: ${text}`, 'name a file of PEM')
  }
}

function checkSecrets({ adminToken, masterKey, databaseUrl }: Config, findings: Findings): void {
  if (adminToken !== undefined && (adminToken.length < TOKEN_LENGTH_MIN || isWeak(adminToken))) {
    findings.warn(
      'ADMIN_TOKEN is short or regular, and opens everything',
      'make one with: openssl rand -base64 32',
    )
  }
  if (adminToken === undefined && databaseUrl !== undefined) {
    findings.ok('ADMIN_TOKEN is not set: only issued tokens open the internal methods')
  }
  if (masterKey !== undefined && isWeak(masterKey.toString('latin1'))) {
    findings.fail(
      'MASTER_KEY is not random, so what it encrypts can be read by guessing it',
      'make one with: openssl rand -base64 32, and rotate to it: inflow master-key rotate',
    )
  }
}

function checkOperation(config: Config, findings: Findings): void {
  const { banks, databaseUrl, logLevel, webhookAllowedCidrs, workers } = config
  const simulated = Object.entries(banks).filter(([, mode]) => mode === 'sandbox')
  const codes = simulated.map(([code]) => code).join(', ')
  if (simulated.length > 0 && databaseUrl !== undefined) {
    findings.warn(
      `simulated banks: ${codes}; no real money arrives there`,
      'set BANKS when it should',
    )
  } else {
    findings.ok(simulated.length > 0 ? `simulated banks: ${codes}` : 'all banks are live')
  }
  const cores = availableParallelism()
  if (workers > cores) {
    findings.warn(
      `WORKERS ${workers} is more than the ${cores} cores of this machine: they take turns`,
      'set WORKERS to the number of cores, less what the database takes where it runs here too',
    )
  } else if (workers > 1) findings.ok(`${workers} workers serve at these ports`)
  if (['debug', 'trace', 'silent'].includes(logLevel)) {
    const why = logLevel === 'silent' ? 'hides what goes wrong' : 'costs time and room'
    findings.warn(`LOG_LEVEL ${logLevel} ${why}`, 'set LOG_LEVEL=info')
  }
  const open = webhookAllowedCidrs.filter((cidr) => /\/[0-7]$/.test(cidr))
  if (open.length > 0) {
    findings.warn(
      `WEBHOOK_ALLOWED_CIDRS ${open.join(', ')} lets webhooks reach nearly anything in your network`,
      'name the ranges of the receivers alone',
    )
  }
}

function isLoopback(host: string): boolean {
  return /^127\./.test(host) || host === '::1' || host === 'localhost'
}

function isWeak(secret: string): boolean {
  return new Set(secret).size < DISTINCT_MIN
}
