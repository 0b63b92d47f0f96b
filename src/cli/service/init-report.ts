import type { Initialized } from '../../app/initialize.ts'
import type { Finding } from '../../doctor/finding.ts'
import { visible } from '../output.ts'

/** What a first start found and made. */
export interface InitReport extends Initialized {
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

export function reportLines(report: InitReport): readonly string[] {
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
