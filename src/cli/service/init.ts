import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { create } from '@bufbuild/protobuf'
import { createValidator } from '@bufbuild/protovalidate'
import type { Command } from 'commander'
import { CreateBusinessRequestSchema } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import {
  type GeneratedKeys,
  generateKeys,
  type Initialized,
  initialize,
  settingLines,
  writeNewSettings,
} from '../../app/initialize.ts'
import type { Config } from '../../config/config.ts'
import { type EnvFile, readEnvFile, withEnvFile } from '../../config/env-file.ts'
import { listSettings } from '../../config/setting-table.ts'
import { secretText, settingText } from '../../config/settings.ts'
import { MasterKeyError } from '../../crypto/check-master-key.ts'
import { createEncrypter, type Encrypter } from '../../crypto/encryption.ts'
import { listKeyIds } from '../../crypto/key-rotation.ts'
import { checkNewDatabase, type NewDatabase } from '../../doctor/check-database.ts'
import type { Finding } from '../../doctor/finding.ts'
import { migrate } from '../../postgres/migrate.ts'
import type { Database } from '../../postgres/orm.ts'
import { EXIT, Failure, jsonText, note, print, visible } from '../output.ts'
import { describeNoun, local } from '../verb.ts'
import { ENV_FILE, type EnvFileOption, environmentOf, settingsOf } from './config.ts'
import { commandLineActor, withDatabase } from './open-database.ts'

interface InitOptions extends EnvFileOption {
  readonly databaseUrl?: string
  readonly writeEnv?: string
  readonly business?: string
  readonly alias?: string
  readonly key: 'live' | 'test'
  readonly json?: boolean
}

const HELP = `
  ${ENV_FILE}
  --database-url <url>  the database, which others on the machine can see here (default: DATABASE_URL)
  --write-env <file>  write the keys, and the settings that reach the database, to this new file, with mode 600; a file that exists is read instead
  --business <name>  create the first business with this name, and its secret key
  --alias <alias>  the prefix of its account names (default: its name, shortened)
  --key <mode>  the mode of its secret key
  --json  print one JSON document

  Prepares a database for its first start: checks it, generates MASTER_KEY and ADMIN_TOKEN unless they are
  set, migrates, and creates the first business. What exists stays as it is, so it can be run again, also
  after an interruption.

  Example: init --database-url postgres://inflow:secret@db:5432/inflow --write-env inflow.env --business Acme`

export function init(noun: Command): void {
  const rules = { key: { choices: ['live', 'test'], default: 'live' } }
  describeNoun(noun, local(run, rules), HELP)
}

async function run(options: InitOptions): Promise<void> {
  const { json = false, writeEnv, databaseUrl } = options
  const first = firstBusiness(options)
  const file = writeEnv !== undefined && existsSync(writeEnv) ? readEnvFile(writeEnv) : undefined
  const env = withEnvFile(
    { ...environmentOf(options), ...(databaseUrl && { DATABASE_URL: databaseUrl }) },
    file,
  )
  if (secretText(env, 'DATABASE_URL') === undefined) {
    throw new Failure(
      EXIT.usage,
      'DATABASE_URL is not set: set it or pass --database-url; npm start without it is for development and needs no init',
    )
  }
  const report = await withDatabase(env, 'must exist', async (database) => {
    const found = await checkNewDatabase(database)
    refuseUnfit(found.findings, json)
    const generated = generateKeys(env, await isUsed(database, found))
    const whole = { ...env, ...generated }
    const config = settingsOf(whole)
    refuseForeignMigration(found, config)
    if (writeEnv === undefined) printKeys(generated, json)
    else await writeSettings(writeEnv, file, whole)
    const migrations = found.pending.length === 0 ? [] : await migrate(database, { onRetry: note })
    const { masterKey, masterKeyPrevious } = config
    const encrypter = createEncrypter(masterKey as Buffer, masterKeyPrevious)
    const made = await begin(database, encrypter, first)
    return {
      findings: found.findings,
      migrations,
      masterKeyId: encrypter.keyId,
      generated: Object.keys(generated),
      envFile: writeEnv,
      hasAdminToken: !!config.adminToken,
      ...made,
      mode: made.secretKey === undefined ? undefined : options.key,
    } satisfies InitReport
  })
  if (json) print(jsonText(report, 2))
  else for (const line of reportLines(report)) print(line)
}

function firstBusiness({ business: name, alias = '', key }: InitOptions) {
  if (name === undefined) return undefined
  const request = create(CreateBusinessRequestSchema, { name: name.trim(), alias: alias.trim() })
  // The patterns come from the contract, so JavaScript's RegExp is safe.
  const validator = createValidator({
    regexMatch: (pattern, text) => new RegExp(pattern, 'u').test(text),
  })
  const { violations = [] } = validator.validate(CreateBusinessRequestSchema, request)
  const [fault] = violations
  if (fault !== undefined) {
    const option = fault.field.at(0)?.toString().includes('alias') ? '--alias' : '--business'
    throw new Failure(EXIT.usage, `${option} ${fault.message}`)
  }
  return { name: request.name, alias: request.alias, live: key === 'live' }
}

/** Prints failed findings, and refuses an unfit database. Durability risks are allowed, because `doctor` reports them. */
function refuseUnfit(findings: readonly Finding[], json: boolean): void {
  const isDurability = ({ found }: Finding) =>
    /^(fsync|full_page_writes|synchronous_commit)/.test(found)
  const failed = findings.filter((finding) => finding.level === 'fail' && !isDurability(finding))
  if (failed.length > 0) {
    throw new Failure(
      EXIT.refused,
      'the database cannot be used: nothing was changed',
      failed.map(({ found, advice }) => `${found}: ${advice}`),
    )
  }
  if (json) return
  for (const { level, found, advice } of findings) {
    if (level !== 'ok') note(`warning: ${found}: ${advice}`)
  }
}

/** Whether a service has used the database: it has registered its master key. */
async function isUsed({ orm }: Database, { pending }: NewDatabase): Promise<boolean> {
  return pending.length === 0 && (await listKeyIds(orm)).length > 0
}

/** Fails if migrations are pending and this role cannot run them, as with two database roles. */
function refuseForeignMigration({ pending, mayMigrate, role }: NewDatabase, config: Config): void {
  if (pending.length === 0 || (mayMigrate && config.migrate)) return
  const why = mayMigrate ? 'MIGRATE is off' : `the role ${role} may not create or alter tables`
  throw new Failure(EXIT.refused, `migrations are pending, and ${why}: nothing was changed`, [
    'migrate as the owner of the database, then run inflow init again:',
    'DATABASE_URL=postgres://<owner>@<host>/<database> inflow migrate up',
  ])
}

/** Prints the generated keys before anything is encrypted with them. */
function printKeys(generated: GeneratedKeys, json: boolean): void {
  const names = Object.keys(generated).join(' and ')
  if (names === '') return
  if (json) throw new Failure(EXIT.usage, `--json needs --write-env, which keeps ${names}`)
  print(`# Keep these settings: they are shown only once.\n${settingLines({ ...generated })}`)
}

/** The settings that a service needs to reach the database, and to decrypt its columns. */
const KEPT = /^(DATABASE_|MASTER_KEY|ADMIN_TOKEN)/

/**
 * Writes the settings that every instance needs, from all sources, before anything is encrypted with the keys.
 *
 * @param file the settings of the file, if it already exists
 */
async function writeSettings(
  path: string,
  file: EnvFile | undefined,
  env: NodeJS.ProcessEnv,
): Promise<void> {
  const settings: Record<string, string> = {}
  for (const { name, secret } of listSettings().filter((setting) => KEPT.test(setting.name))) {
    const text = settingText(env, name)
    if (text !== undefined) settings[name] = text
    const secretFile = secret ? settingText(env, `${name}_FILE`) : undefined
    // Absolute, because the service may start in another folder.
    if (secretFile !== undefined) settings[`${name}_FILE`] = resolve(secretFile)
  }
  if (file !== undefined) {
    const lacking = Object.keys(settings).filter(
      (name) => settingText(file.values, name) !== settingText(env, name),
    )
    if (lacking.length === 0) return
    throw new Failure(
      EXIT.refused,
      `${path} exists without the current ${lacking.join(', ')}, and is never overwritten: add them, or name another file`,
    )
  }
  await writeNewSettings(path, settings).catch(({ message }: Error) => {
    throw new Failure(EXIT.refused, `cannot write the file of --write-env: ${message}`)
  })
}

async function begin(
  database: Database,
  encrypter: Encrypter,
  first: ReturnType<typeof firstBusiness>,
): Promise<Initialized> {
  try {
    return await initialize(database, encrypter, first, commandLineActor(encrypter))
  } catch (error) {
    if (error instanceof MasterKeyError) throw new Failure(EXIT.refused, error.message)
    throw error
  }
}

/** The result of a first start. */
interface InitReport extends Initialized {
  readonly findings: readonly Finding[]
  /** Names of the migrations that ran. */
  readonly migrations: readonly string[]
  readonly masterKeyId: string
  /** Names of the settings that were generated. */
  readonly generated: readonly string[]
  /** The file of --write-env. */
  readonly envFile: string | undefined
  readonly hasAdminToken: boolean
  /** The mode of the secret key. */
  readonly mode: 'live' | 'test' | undefined
}

function reportLines(report: InitReport): readonly string[] {
  return [...foundLines(report), '', ...keepLines(report), '', ...nextLines(report)]
}

function foundLines(report: InitReport): readonly string[] {
  const { migrations, masterKeyId, generated, business, secretKey, mode, hasAdminToken } = report
  const origin = (name: string) => (generated.includes(name) ? 'generated' : 'as it was set')
  const server = report.findings.find(({ found }) => found.startsWith('PostgreSQL'))?.found ?? ''
  return [
    `Database     ${visible(server)}`,
    `Schema       ${migrations.length === 0 ? 'up to date: nothing to migrate' : `migrated: ${migrations.join(', ')}`}`,
    `Master key   ${masterKeyId}, ${origin('MASTER_KEY')}`,
    `Admin token  ${hasAdminToken ? origin('ADMIN_TOKEN') : 'none: issued tokens administer the service'}`,
    ...(business === undefined
      ? ['Business     none: run this again with --business <name>']
      : [
          `Business     ${business.id} ${visible(business.name)}, ${business.created ? 'created' : 'which exists: nothing was created'}`,
        ]),
    ...(secretKey === undefined ? [] : [`Secret key   ${secretKey} (${mode}; shown only once)`]),
  ]
}

function keepLines({ generated, envFile, secretKey, business }: InitReport): readonly string[] {
  const place = envFile ?? (generated.length > 0 ? 'the settings above' : undefined)
  const lines = [
    place !== undefined
      ? `- ${place}: the settings of every instance. Readable by the service alone.`
      : '- the settings of every instance, as they are.',
    '- a copy of MASTER_KEY apart from the backups of the database: without it, identity numbers and webhook',
    '  secrets in a backup cannot be decrypted; with it, they can, by all who have both.',
  ]
  if (secretKey !== undefined) {
    lines.push(
      '- the secret key: hand it to the business. It is not stored, and cannot be read again.',
    )
  } else if (business !== undefined) {
    lines.push(`- a lost secret key is replaced: inflow key issue --business ${business.id}`)
  }
  return ['Keep:', ...lines]
}

function nextLines({ envFile }: InitReport): readonly string[] {
  const options = envFile === undefined ? '' : ` --env-file ${envFile}`
  return [
    'Next:',
    `  inflow config check${options}`,
    `  inflow serve${options}`,
    `  inflow doctor${options}`,
  ]
}
