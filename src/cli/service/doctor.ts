import { styleText } from 'node:util'
import type { Command } from 'commander'
import { encryptedTables, partitionedTables } from '../../app/tables.ts'
import { VERSION } from '../../app/version.ts'
import type { Config } from '../../config/config.ts'
import { withEnvFile } from '../../config/env-file.ts'
import { settingText } from '../../config/settings.ts'
import { systemClock } from '../../core/clock.ts'
import { createEncrypter } from '../../crypto/encryption.ts'
import { readKeyFiles } from '../../crypto/key-files.ts'
import { checkBanks, checkBankWork } from '../../doctor/check-banks.ts'
import {
  checkArchiver,
  checkDatabase,
  checkPartitions,
  checkReplicas,
  checkSettlement,
} from '../../doctor/check-database.ts'
import { checkEvents } from '../../doctor/check-events.ts'
import { checkPayouts } from '../../doctor/check-payouts.ts'
import { checkRelay } from '../../doctor/check-relay.ts'
import { checkService } from '../../doctor/check-service.ts'
import {
  checkAdministrators,
  checkCertificates,
  checkEncryption,
  checkFolder,
  checkSettings,
} from '../../doctor/check-settings.ts'
import { checkUpgrade } from '../../doctor/check-upgrade.ts'
import type { Area, Finding, Level } from '../../doctor/finding.ts'
import { measureDatabase } from '../../doctor/measure-database.ts'
import { hasListener, type OwnServers, ownServers } from '../../doctor/own-servers.ts'
import type { Database } from '../../postgres/orm.ts'
import { findService, withProfile } from '../find-service.ts'
import { counted, EXIT, Failure, jsonText, note, print, visible } from '../output.ts'
import { readTlsOptions } from '../tls.ts'
import { describeNoun, local } from '../verb.ts'
import { ENV_FILE, type EnvFileOption, openEnvFile } from './config.ts'
import { withDatabase } from './open-database.ts'

interface DoctorOptions extends EnvFileOption {
  readonly serviceUrl?: string
  readonly serviceProfile?: string
  readonly json?: boolean
  readonly measure?: boolean
}

const MARKS = {
  ok: ['green', '✓'],
  warn: ['yellow', '!'],
  fail: ['red', '✗'],
} as const satisfies Record<Level, readonly [string, string]>

const HELP = `
  ${ENV_FILE}
  --url, --service-url <url>  gRPC URL of the service (default: INFLOW_GRPC_URL, else the service of these settings)
  --profile, --service-profile <name>  check only the service of this profile (inflow login)
  --measure  also measure a commit, the recording of payments, and a tick of the sequencer
  --json  print one JSON document: {"findings": [{area, level, found, advice}]}

  It changes nothing (what it measures is rolled back), and works with or without a running service. Run it with the settings
  of the service, or with --profile for one that runs elsewhere. The exit code is 1 if a check fails.

  Example: doctor`

export function doctor(noun: Command): void {
  describeNoun(noun, local(runChecks), HELP)
}

async function runChecks({
  serviceUrl,
  serviceProfile,
  json,
  measure = false,
  ...options
}: DoctorOptions): Promise<void> {
  // A profile names a service on another machine, so its settings and database cannot be checked here.
  if (serviceProfile !== undefined) {
    const env = withProfile({ serviceProfile, ...(serviceUrl && { serviceUrl }) }, process.env)
    const findings = await guard('Service', () => findAndCheckService(undefined, undefined, env))
    return conclude(findings, json)
  }
  const file = openEnvFile(options)
  const env = withEnvFile(process.env, file)
  const { config, findings: settings } = checkSettings(process.env, file)
  const findings = [...settings]
  if (config !== undefined) {
    if (config.databaseUrl === undefined) {
      findings.push(...(await guard('Data folder', () => checkFolder(config.dataDir))))
    }
    findings.push(...(await guard('Database', () => checkDatabaseAndWork(config, env, measure))))
    findings.push(...(await checkBanks(config.liveBanks)))
  }
  findings.push(...(await guard('Service', () => findAndCheckService(serviceUrl, config, env))))
  conclude(findings, json)
}

/** @throws Failure if a check failed */
function conclude(findings: readonly Finding[], json: boolean | undefined): void {
  if (json) print(jsonText({ findings }, 2))
  else print(report(findings))
  const failed = findings.filter(({ level }) => level === 'fail').length
  if (failed > 0) throw new Failure(EXIT.refused, `${counted(failed, 'check')} failed`)
  const warned = findings.filter(({ level }) => level === 'warn').length
  if (!json)
    note(warned === 0 ? 'All checks passed.' : `No check failed; ${counted(warned, 'warning')}.`)
}

function checkDatabaseAndWork(
  config: Config,
  env: NodeJS.ProcessEnv,
  measure: boolean,
): Promise<readonly Finding[]> {
  return withDatabase(env, 'must exist', async (database) => {
    const { durablePool, orm } = database
    const { relay, eventRetentionDays } = config
    const tables = partitionedTables({ database, clock: systemClock }, config)
    return [
      ...(await guard('Settings', () => checkAdministrators(durablePool, config))),
      ...(await checkDatabase(database, Date.now, config)),
      ...(measure ? await guard('Database', () => measureDatabase(database)) : []),
      ...(await guard('Database', () => checkPartitions(durablePool, tables, systemClock.now()))),
      ...(await guard('Database', () => checkReplicas(durablePool, config.databaseReadUrls))),
      ...(await guard('Upgrade', () => checkUpgrade(database, VERSION))),
      ...(config.databaseUrl === undefined
        ? []
        : await guard('Backups', () => checkArchiver(durablePool))),
      ...(await guard('Encryption', () => checkKeys(config, database))),
      ...(await guard('Events', () => checkEvents(durablePool, eventRetentionDays))),
      ...(await guard('Webhooks', () => checkCertificates(durablePool, Date.now()))),
      ...(relay
        ? await guard('Relay', () => checkRelay(durablePool, relay, eventRetentionDays))
        : []),
      ...(await guard('Banks', () => checkBankWork(orm, config.liveBanks, Date.now()))),
      ...(await guard('Settlement', () => checkSettlement(database, Date.now()))),
      ...(await guard('Payouts', () => checkPayouts(durablePool, config.liveBanks, Date.now()))),
    ]
  })
}

async function checkKeys(config: Config, database: Database): Promise<readonly Finding[]> {
  const { masterKey, masterKeyPrevious, dataDir } = config
  const keys =
    masterKey === undefined
      ? await readKeyFiles(dataDir, 'must exist')
      : { current: masterKey, others: masterKeyPrevious }
  const encrypter = createEncrypter(keys.current, keys.others)
  return checkEncryption(database.orm, encrypter, encryptedTables(database))
}

async function findAndCheckService(
  serviceUrl: string | undefined,
  config: Config | undefined,
  env: NodeJS.ProcessEnv,
): Promise<readonly Finding[]> {
  const isGiven = serviceUrl !== undefined || settingText(env, 'INFLOW_GRPC_URL') !== undefined
  // The data folder may contain the credentials of an earlier, embedded service.
  if (!isGiven && config?.databaseUrl !== undefined) {
    const own = ownServers(config)
    return checkService(own && (await hasListener(own)) ? ownService(own, config, env) : undefined)
  }
  try {
    // The health check needs no token.
    const options = { token: '-', ...(serviceUrl !== undefined && { serviceUrl }) }
    const { url, httpUrl, opsUrl } = findService(options, env)
    return await checkService({ grpcUrl: url, httpUrl, opsUrl, tls: readTlsOptions(env) })
  } catch (error) {
    if (error instanceof Failure && error.exitCode === EXIT.unreachable) {
      return checkService(undefined)
    }
    throw error
  }
}

/** With TLS_CLIENT_CA, the gRPC server accepts only clients with a certificate. */
function ownService(own: OwnServers, config: Config, env: NodeJS.ProcessEnv) {
  const { cert, key } = readTlsOptions(env)
  const tls = { ...own.tls, cert, key }
  const isClosed = config.tls?.clientCa !== undefined && cert === undefined
  return { ...own, grpcUrl: isClosed ? undefined : own.grpcUrl, tls }
}

/** Turns the error of a check that could not run into a finding. */
async function guard(
  area: Area,
  check: () => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  try {
    return await check()
  } catch (error) {
    const found = error instanceof Error ? error.message : String(error)
    // A database that does not exist yet is not a failure.
    const level = error instanceof Failure && error.exitCode === EXIT.refused ? 'warn' : 'fail'
    const missing = (error as { code?: unknown }).code === '42P01'
    const advice = missing ? 'update the schema: inflow migrate up' : ''
    return [{ area, level, found, advice }]
  }
}

/** Formats the findings by area, each with its advice below it. */
function report(findings: readonly Finding[]): string {
  const areas = [...new Set(findings.map(({ area }) => area))]
  return areas
    .map((area) => {
      const own = findings.filter((finding) => finding.area === area)
      return [styleText('bold', area), ...own.flatMap(linesOf)].join('\n')
    })
    .join('\n\n')
}

function linesOf({ level, found, advice }: Finding): string[] {
  const [color, sign] = MARKS[level]
  const lines = [`  ${styleText(color, sign)} ${level.padEnd(4)}  ${visible(found)}`]
  if (advice !== '') lines.push(`          ${styleText('dim', '→')} ${visible(advice)}`)
  return lines
}
