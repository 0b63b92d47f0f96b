import { styleText } from 'node:util'
import type { Command } from 'commander'
import { encryptedTables } from '../../app/encrypted-tables.ts'
import type { Config } from '../../config/config.ts'
import { createEncrypter } from '../../crypto/encryption.ts'
import { readKeyFiles } from '../../crypto/key-files.ts'
import { checkBanks, checkBankWork } from '../../doctor/check-banks.ts'
import { checkDatabase } from '../../doctor/check-database.ts'
import { checkEncryption } from '../../doctor/check-encryption.ts'
import { checkEvents } from '../../doctor/check-events.ts'
import { checkFolder } from '../../doctor/check-folder.ts'
import { checkService } from '../../doctor/check-service.ts'
import { checkSettings } from '../../doctor/check-settings.ts'
import { checkSettlement } from '../../doctor/check-settlement.ts'
import type { Area, Finding, Level } from '../../doctor/finding.ts'
import type { Database } from '../../postgres/orm.ts'
import { EXIT, Failure } from '../failure.ts'
import { findService } from '../find-service.ts'
import { note, print, visible } from '../output.ts'
import { readTrust } from '../trust.ts'
import { withDatabase } from './open-database.ts'

interface DoctorOptions {
  readonly serviceUrl?: string
  readonly json?: boolean
}

const MARKS = {
  ok: ['green', '✓'],
  warn: ['yellow', '!'],
  fail: ['red', '✗'],
} as const satisfies Record<Level, readonly [string, string]>

/** `inflow doctor` */
export function doctor(noun: Command): void {
  noun
    .helpOption('-h, --help', 'show help')
    .option(
      '--url, --service-url <url>',
      'gRPC address of the service (default: INFLOW_GRPC_URL, else the local one)',
    )
    .option('--json', 'print one JSON document: {"findings": [{area, level, found, advice}]}')
    .addHelpText(
      'after',
      '\nIt changes nothing, with a running service or without one. Run it with the settings of the\n' +
        'service. Exit code 1 when anything fails.\n\nExample:\n  inflow doctor',
    )
    .action(examine)
}

async function examine({ serviceUrl, json }: DoctorOptions): Promise<void> {
  const { config, findings: settings } = checkSettings(process.env)
  const findings = [...settings]
  if (config !== undefined) {
    if (config.databaseUrl === undefined) {
      findings.push(...(await guarded('Data folder', () => checkFolder(config.dataDir))))
    }
    findings.push(...(await guarded('Database', () => examineDatabase(config))))
    findings.push(...(await checkBanks(config.liveBanks)))
  }
  findings.push(...(await guarded('Service', () => examineService(serviceUrl))))
  if (json) print(JSON.stringify({ findings }, null, 2))
  else print(report(findings))
  const failed = findings.filter(({ level }) => level === 'fail').length
  if (failed > 0) throw new Failure(EXIT.refused, `${failed} of these must be put right`)
  const warned = findings.filter(({ level }) => level === 'warn').length
  if (!json) note(warned === 0 ? 'All is well.' : `Nothing fails; ${warned} to think about.`)
}

function examineDatabase(config: Config): Promise<readonly Finding[]> {
  return withDatabase(process.env, 'must exist', async (database) => {
    const { pool } = database
    return [
      ...(await checkDatabase(database, Date.now, config.workers)),
      ...(await guarded('Encryption', () => examineKeys(config, database))),
      ...(await guarded('Events', () => checkEvents(pool, config.eventRetentionDays))),
      ...(await guarded('Banks', () => checkBankWork(pool, config.liveBanks, Date.now()))),
      ...(await guarded('Settlement', () => checkSettlement(pool, Date.now()))),
    ]
  })
}

async function examineKeys(config: Config, { pool }: Database): Promise<readonly Finding[]> {
  const { masterKey, masterKeyPrevious, dataDir } = config
  const keys =
    masterKey === undefined
      ? await readKeyFiles(dataDir, 'must exist')
      : { current: masterKey, others: masterKeyPrevious }
  const encrypter = createEncrypter(keys.current, keys.others)
  return checkEncryption(pool, encrypter, encryptedTables(pool))
}

async function examineService(serviceUrl: string | undefined): Promise<readonly Finding[]> {
  try {
    // Health needs no token.
    const options = { token: '-', ...(serviceUrl !== undefined && { serviceUrl }) }
    const { url, httpUrl } = findService(options, process.env)
    return await checkService({ grpcUrl: url, httpUrl, tls: readTrust(process.env) })
  } catch (error) {
    if (error instanceof Failure && error.exitCode === EXIT.unreachable) {
      return checkService(undefined)
    }
    throw error
  }
}

/** What cannot be looked at is a finding, too. */
async function guarded(
  area: Area,
  check: () => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  try {
    return await check()
  } catch (error) {
    const found = error instanceof Error ? error.message : String(error)
    // A database that was not made yet is none that has something wrong with it.
    const level = error instanceof Failure && error.exitCode === EXIT.refused ? 'warn' : 'fail'
    const missing = (error as { code?: unknown }).code === '42P01'
    const advice = missing ? 'bring the schema up to date: inflow migrate up' : ''
    return [{ area, level, found, advice }]
  }
}

function mark(level: Level): string {
  const [color, sign] = MARKS[level]
  return styleText(color, sign)
}

/** An area after the other, and under each finding what to do. */
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
  const lines = [`  ${mark(level)} ${level.padEnd(4)}  ${visible(found)}`]
  if (advice !== '') lines.push(`          ${styleText('dim', '→')} ${visible(advice)}`)
  return lines
}
