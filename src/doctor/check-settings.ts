import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { stat, statfs } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import type { MikroORM } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import { readAdministratorRisk } from '../auth/tokens.ts'
import { type Config, ConfigError } from '../config/config.ts'
import type { EnvFile } from '../config/env-file.ts'
import {
  findUnknown,
  readStartConfig,
  settingRisks,
  unknownRisk,
} from '../config/start-settings.ts'
import { DAY_MS } from '../core/durations.ts'
import { checkMasterKey, MasterKeyError } from '../crypto/check-master-key.ts'
import type { EncryptedRows } from '../crypto/encrypted-rows.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import { listInstancesWithoutKey, listKeyIds } from '../crypto/key-rotation.ts'
import { listExpiringCertificates } from '../webhooks/connections/apply-connection.ts'
import { createFindings, type Finding } from './finding.ts'

/** A token or key with fewer distinct characters is not random. */
const DISTINCT_MIN = 12
const EXPIRY_NOTICE_DAYS = 14

interface Settings {
  /** Undefined: the settings are invalid. */
  readonly config: Config | undefined
  readonly findings: readonly Finding[]
}

/**
 * Checks whether the settings are valid, and which of them are weak or unknown.
 *
 * @param file further settings; the environment takes precedence
 */
export function checkSettings(given: NodeJS.ProcessEnv, file?: EnvFile): Settings {
  const findings = createFindings('Settings')
  // Unknown settings that prevent a start are already among the faults.
  for (const unknown of findUnknown(given, file).filter(({ refused }) => !refused)) {
    const { found, advice } = unknownRisk(unknown)
    findings.warn(found, advice)
  }
  try {
    const config = readStartConfig(given, file)
    const { host, httpPort, grpcPort } = config
    findings.ok(`all settings are valid: HTTP at ${host}:${httpPort}, gRPC at ${host}:${grpcPort}`)
    checkAddress(config, findings)
    checkSecrets(config, findings)
    checkDatabaseUrls(config, findings)
    checkOperation(config, findings)
    return { config, findings: findings.all }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const fault of error.faults)
      findings.fail(fault, 'the service does not start until this is fixed')
    return { config: undefined, findings: findings.all }
  }
}

type Findings = ReturnType<typeof createFindings>

function checkAddress(
  { host, grpcReflection, databaseUrl, opsPort, tls }: Config,
  findings: Findings,
): void {
  if (tls !== undefined) checkCertificate(tls.cert, findings)
  if (isLoopback(host)) {
    findings.ok('both servers listen on this machine only')
    return
  }
  if (tls === undefined) {
    findings.warn(
      `HOST ${host} exposes the servers to the network without encryption`,
      'set TLS_CERT and TLS_KEY, or terminate TLS in a proxy that alone can reach the servers',
    )
  }
  if (grpcReflection) {
    findings.warn(
      'GRPC_REFLECTION shows the API to every client that reaches the gRPC server',
      'set GRPC_REFLECTION=off, unless callers need it',
    )
  }
  if (opsPort === undefined) {
    findings.warn(
      'metrics, with how many payments arrive, are served to every caller that reaches HTTP_PORT',
      'set OPS_PORT, and publish HTTP_PORT alone',
    )
  }
  if (databaseUrl === undefined) {
    findings.warn(
      'the embedded database is used by a service that other machines can reach',
      'it is for development only: otherwise set DATABASE_URL',
    )
  }
}

function checkCertificate(file: string, findings: Findings): void {
  try {
    const { validToDate } = new X509Certificate(readFileSync(file))
    const leftDays = Math.floor((validToDate.getTime() - Date.now()) / DAY_MS)
    const until = validToDate.toISOString().slice(0, 10)
    const advice = 'replace it, and send the service SIGHUP'
    if (leftDays < 0) findings.fail(`TLS_CERT expired on ${until}`, advice)
    else if (leftDays < EXPIRY_NOTICE_DAYS) findings.warn(`TLS_CERT expires on ${until}`, advice)
    else findings.ok(`TLS_CERT is valid until ${until}`)
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error)
    findings.fail(`TLS_CERT cannot be read: ${text}`, 'set it to a PEM file')
  }
}

/** The values of `sslmode` with which pg verifies the certificate. Without `sslmode`, pg does not encrypt. */
const VERIFIED = /^(verify-full|verify-ca|require|prefer)$/

function checkDatabaseUrls(
  { databaseUrl, databaseListenUrl, databaseReadUrls }: Config,
  findings: Findings,
): void {
  const given = [databaseUrl, databaseListenUrl, ...databaseReadUrls]
  const hosts = given.flatMap((text) => {
    if (text === undefined) return []
    const { hostname, host, searchParams } = new URL(text)
    const isHere = hostname === '' || searchParams.has('host') || isLoopback(hostname)
    const mode =
      searchParams.get('sslmode') ?? (searchParams.get('ssl') === 'true' ? 'require' : '')
    const isVerified =
      mode === 'verify-full' || (VERIFIED.test(mode) && !searchParams.has('uselibpqcompat'))
    return isHere || isVerified ? [] : [host]
  })
  if (hosts.length === 0) return
  findings.warn(
    `the connection to the database is not encrypted, or its certificate not verified: ${[...new Set(hosts)].join(', ')}`,
    'add ?sslmode=verify-full (and sslrootcert=<file>) to the URL',
  )
}

function checkSecrets({ adminToken, masterKey }: Config, findings: Findings): void {
  if (adminToken !== undefined && isWeak(adminToken)) {
    findings.warn(
      'ADMIN_TOKEN is not random, and allows everything',
      'create one with: openssl rand -base64 32',
    )
  }
  if (masterKey !== undefined && isWeak(masterKey.toString('latin1'))) {
    findings.fail(
      'MASTER_KEY is not random, so an attacker may guess it and decrypt the data',
      'create one with: openssl rand -base64 32, and rotate to it: inflow master-key rotate',
    )
  }
}

function checkSimulatedBanks({ banks, databaseUrl }: Config, findings: Findings): void {
  const simulated = Object.entries(banks).filter(([, mode]) => mode === 'sandbox')
  const codes = simulated.map(([code]) => code).join(', ')
  if (simulated.length > 0 && databaseUrl !== undefined) {
    findings.warn(
      `simulated banks: ${codes}; they receive no real money`,
      'set BANKS to use the live banks',
    )
  } else {
    findings.ok(simulated.length > 0 ? `simulated banks: ${codes}` : 'all banks are live')
  }
}

function checkOperation(config: Config, findings: Findings): void {
  const { logLevel, webhookAllowedCidrs, workers } = config
  checkSimulatedBanks(config, findings)
  for (const { found, advice } of settingRisks(config)) findings.warn(found, advice)
  const cores = availableParallelism()
  if (workers > cores) {
    findings.warn(
      `WORKERS ${workers} is more than the ${cores} cores of this machine`,
      'set WORKERS to the number of cores, less the cores that a database on this machine needs',
    )
  } else if (workers > 1) findings.ok(`${workers} workers serve these ports`)
  if (['debug', 'trace', 'silent'].includes(logLevel)) {
    const effect = logLevel === 'silent' ? 'hides errors' : 'costs time and disk space'
    findings.warn(`LOG_LEVEL ${logLevel} ${effect}`, 'set LOG_LEVEL=info')
  }
  const wide = webhookAllowedCidrs.filter((cidr) => /\/[0-7]$/.test(cidr))
  if (wide.length > 0) {
    findings.warn(
      `WEBHOOK_ALLOWED_CIDRS ${wide.join(', ')} lets webhooks reach almost every host of your network`,
      'name only the ranges of the receivers',
    )
  }
}

function isLoopback(host: string): boolean {
  return /^127\./.test(host) || host === '::1' || host === 'localhost'
}

function isWeak(secret: string): boolean {
  return new Set(secret).size < DISTINCT_MIN
}

/** Checks that a caller can administer the service. In embedded mode, the data folder has a token. */
export async function checkAdministrators(pool: Pool, config: Config): Promise<readonly Finding[]> {
  const findings = createFindings('Settings')
  if (config.databaseUrl === undefined) return findings.all
  const risks = await readAdministratorRisk(pool, config)
  for (const { found, advice } of risks) findings.warn(found, advice)
  if (risks.length === 0) {
    findings.ok(
      config.adminToken === undefined
        ? 'ADMIN_TOKEN is not set: issued tokens, certificates or users administer the service'
        : 'the service can be administered',
    )
  }
  return findings.all
}

/** Certificates that expire within this time are reported. */
const WARN_MS = 30 * DAY_MS

/** Checks that the client certificates of webhook endpoints do not expire soon. */
export async function checkCertificates(pool: Pool, nowMs: number): Promise<readonly Finding[]> {
  const findings = createFindings('Webhooks')
  const { endpoints, expiring } = await listExpiringCertificates(pool, nowMs + WARN_MS)
  if (endpoints > 0 && expiring.length === 0) {
    findings.ok(`no client certificate of ${endpoints} endpoints expires within 30 days`)
  }
  for (const { id, expiresAtMs } of expiring) {
    const day = new Date(expiresAtMs).toISOString().slice(0, 10)
    const advice = `inflow webhook update ${id} --certificate-file … --certificate-key-file …`
    const found = `the client certificate of the endpoint ${id}`
    if (expiresAtMs <= nowMs) findings.fail(`${found} expired on ${day}`, advice)
    else findings.warn(`${found} expires on ${day}`, advice)
  }
  return findings.all
}

/** Checks that the configured master keys match the database, and that all of them are needed. */
export async function checkEncryption(
  orm: MikroORM,
  encrypter: Encrypter,
  tables: readonly EncryptedRows[],
): Promise<readonly Finding[]> {
  const findings = createFindings('Encryption')
  try {
    await checkMasterKey(orm, encrypter, tables)
  } catch (error) {
    if (!(error instanceof MasterKeyError)) throw error
    findings.fail(
      error.message,
      'without it, identity numbers and webhook secrets cannot be decrypted',
    )
    return findings.all
  }
  findings.ok(`the master key ${encrypter.keyId} matches the database`)
  const registered = await listKeyIds(orm)
  if (registered.length > 1) {
    findings.warn(
      `part of the database may be encrypted with a key other than ${encrypter.keyId}`,
      'finish the rotation: inflow master-key rotate',
    )
  }
  const unneeded = encrypter.knownKeyIds.filter(
    (id) => id !== encrypter.keyId && !registered.includes(id),
  )
  if (registered.length > 0 && unneeded.length > 0) {
    findings.warn(
      `the earlier key ${unneeded.join(', ')} is no longer needed`,
      'remove it from MASTER_KEY_PREVIOUS, and keep it with the backups of its time',
    )
  }
  const lacking = await listInstancesWithoutKey(orm, encrypter)
  if (lacking.length > 0) {
    findings.warn(
      `${lacking.length} running instances lack the key ${encrypter.keyId}`,
      'add it to their MASTER_KEY_PREVIOUS, and restart them',
    )
  }
  return findings.all
}

/** The files with secrets, relative to the data folder. */
const SECRET_FILES = ['credentials.json', 'master.key', 'master.key.previous', 'postgres.password']

const MIB = 1_048_576
const FREE_WARN_BYTES = 2_048 * MIB
const FREE_FAIL_BYTES = 256 * MIB

/** Checks the permissions of the data folder, and the free space of its disk. */
export async function checkFolder(dataDir: string): Promise<readonly Finding[]> {
  const findings = createFindings('Data folder')
  const folder = await stat(dataDir).catch(() => undefined)
  if (folder === undefined) {
    findings.ok(`${dataDir} does not exist; the embedded mode creates it at the first start`)
    return findings.all
  }
  if ((folder.mode & 0o022) !== 0) {
    findings.fail(`other users can write to ${dataDir}`, `chmod go-w ${dataDir}`)
  }
  const readable: string[] = []
  for (const name of SECRET_FILES) {
    const file = await stat(join(dataDir, name)).catch(() => undefined)
    if (file !== undefined && (file.mode & 0o077) !== 0) readable.push(join(dataDir, name))
  }
  if (readable.length > 0) {
    findings.fail(`other users can read ${readable.join(', ')}`, `chmod 600 ${readable.join(' ')}`)
  } else {
    findings.ok(`no other user can read the secrets in ${dataDir}`)
  }
  await checkFreeSpace(dataDir, findings)
  return findings.all
}

async function checkFreeSpace(dataDir: string, findings: Findings): Promise<void> {
  const { bavail, bsize } = await statfs(dataDir)
  const freeBytes = bavail * bsize
  const found = `${(freeBytes / MIB / 1_024).toFixed(1)} GiB free on the disk of ${dataDir}`
  const advice = 'free some space: a full disk stops the database, and with it all payments'
  if (freeBytes < FREE_FAIL_BYTES) findings.fail(found, advice)
  else if (freeBytes < FREE_WARN_BYTES) findings.warn(found, advice)
  else findings.ok(found)
}
