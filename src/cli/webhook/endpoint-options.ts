import { readFileSync, statSync } from 'node:fs'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { type Command, InvalidArgumentError, Option } from 'commander'
import type {
  ConfiguredOptions,
  EndpointOptionsSchema,
} from '../../../gen/inflow/webhook/v1/endpoint_options_pb.ts'
import { type Endpoint, LegacySignature } from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { EXIT, Failure } from '../failure.ts'
import { localTime } from '../local-time.ts'
import { enumOption } from '../options.ts'
import type { Column } from '../output.ts'
import { readSecret, readSecretFile } from '../read-secret.ts'

/** Where the command line takes the options of an endpoint from. Secrets come from files only. */
export interface OptionFlags {
  readonly headersFile?: string
  readonly removeHeaders?: boolean
  readonly basicUsername?: string
  readonly basicPasswordFile?: string
  readonly removeAuthentication?: boolean
  readonly certificateFile?: string
  readonly certificateKeyFile?: string
  readonly removeCertificate?: boolean
  readonly oauth2Url?: string
  readonly oauth2Client?: string
  readonly oauth2SecretFile?: string
  readonly oauth2Scope?: string
  readonly oauth2Audience?: string
  readonly oauth2InBody?: boolean
  readonly rateLimit?: number
  readonly ordered?: boolean
  readonly unordered?: boolean
}

/** How requests look and are signed. The text secret comes from a file only. */
export interface FormatFlags {
  readonly textSecretFile?: string
  readonly legacySignature?: LegacySignature
  readonly removeLegacySignature?: boolean
  readonly eventName?: string
  readonly payerAsArray?: boolean
  readonly payerAsObject?: boolean
}

type Options = MessageInitShape<typeof EndpointOptionsSchema>

/** The largest file of headers. */
const FILE_BYTES_MAX = 32_768

export function addOptionFlags(verb: Command): Command {
  return verb
    .addOption(
      new Option(
        '--headers-file <path>',
        'file of custom headers, a line "name: value" for each; replaces all that there were',
      ).conflicts('removeHeaders'),
    )
    .addOption(
      new Option('--basic-username <name>', 'user name of basic authentication').conflicts(
        'removeAuthentication',
      ),
    )
    .option('--basic-password-file <path>', 'file of the password of basic authentication')
    .addOption(
      new Option('--oauth2-url <url>', 'URL of access tokens, for client credentials').conflicts([
        'removeAuthentication',
        'basicUsername',
      ]),
    )
    .option('--oauth2-client <id>', 'client id')
    .option('--oauth2-secret-file <path>', 'file of the client secret')
    .option('--oauth2-scope <scope>', 'scope to request')
    .option('--oauth2-audience <audience>', 'audience to request')
    .option('--oauth2-in-body', 'send the credentials in the body')
    .addOption(
      new Option(
        '--certificate-file <path>',
        'client certificate with its chain, in PEM, for mutual TLS',
      ).conflicts('removeCertificate'),
    )
    .option('--certificate-key-file <path>', 'private key of the certificate, in PEM')
    .option('--rate-limit <count>', 'requests a second, 1 to 1000; 0: no limit', rateLimit)
    .addOption(
      new Option('--ordered', 'send each event after the one before was acknowledged').conflicts(
        'unordered',
      ),
    )
}

/** Flags of the WIAXY profile, of an endpoint that is added or updated. */
export function addFormatFlags(verb: Command): Command {
  return verb
    .addOption(
      enumOption(
        '--legacy-signature <kind>',
        'also send x-wiaxy-signature, which is weak (profile wiaxy)',
        LegacySignature,
      ),
    )
    .option(
      '--event-name <name>',
      'what bodies call PAYMENT_NOTIFICATION, such as PAYMENT_NOTIFIFICATION (profile wiaxy)',
    )
    .option('--payer-as-array', 'send data.payer as an array of one (profile wiaxy)')
}

export function addTextSecretFlag(verb: Command): Command {
  return verb.option(
    '--text-secret-file <path>',
    'file of the text that signs, or - for standard input; default: one is generated (profile wiaxy)',
  )
}

/** @returns empty: none was given */
export async function readTextSecret({ textSecretFile: path }: FormatFlags): Promise<string> {
  if (path === undefined) return ''
  return path === '-' ? readSecret('Text secret') : readSecretFile(path, '--text-secret-file')
}

/** Absent fields are not requested. */
export function readFormat(flags: FormatFlags) {
  const { legacySignature, removeLegacySignature, eventName, payerAsArray, payerAsObject } = flags
  return {
    ...((legacySignature || removeLegacySignature) && {
      legacySignature: legacySignature ?? LegacySignature.UNSPECIFIED,
    }),
    ...(eventName !== undefined && { eventName }),
    ...((payerAsArray || payerAsObject) && { payerAsArray: payerAsArray === true }),
  }
}

export function addRemovalFlags(verb: Command): Command {
  return verb
    .option('--remove-legacy-signature', 'send no x-wiaxy-signature any more')
    .option('--payer-as-object', 'send data.payer as an object again')
    .option('--remove-headers', 'remove the custom headers')
    .option('--remove-authentication', 'remove the authentication')
    .option('--remove-certificate', 'remove the client certificate')
    .option('--unordered', 'send events without waiting for the one before')
}

/** @throws Failure when a file cannot be read, or an option lacks another */
export function readOptions(flags: OptionFlags): Options {
  const headers = readHeaders(flags)
  const authentication = readAuthentication(flags)
  const clientCertificate = readCertificate(flags)
  return {
    ...(headers && { headers: { headers } }),
    ...(authentication && { authentication }),
    ...(clientCertificate && { clientCertificate }),
    ...(flags.rateLimit !== undefined && { rateLimit: flags.rateLimit }),
    ...((flags.ordered || flags.unordered) && { ordered: flags.ordered === true }),
  }
}

function rateLimit(text: string): number {
  const count = /^\d{1,4}$/.test(text) ? Number(text) : -1
  if (count < 0 || count > 1_000) throw new InvalidArgumentError('Must be a number from 0 to 1000.')
  return count
}

function readHeaders({ headersFile, removeHeaders }: OptionFlags) {
  if (removeHeaders) return []
  if (headersFile === undefined) return undefined
  const lines = readText(headersFile)
    .split(/\r?\n/)
    .filter((line) => line.trim() !== '')
  return lines.map((line, index) => {
    const [, name, value] = /^([^:\s]+):\s*(.*?)\s*$/.exec(line) ?? []
    // The line itself may hold a secret.
    if (name === undefined || value === undefined) {
      const text = `--headers-file: line ${index + 1} of ${headersFile} is not "name: value"`
      throw new Failure(EXIT.usage, text)
    }
    return { name, value }
  })
}

function readAuthentication(flags: OptionFlags): Options['authentication'] {
  const { basicUsername: username, basicPasswordFile, removeAuthentication } = flags
  if (removeAuthentication) return { method: { case: undefined } }
  if (flags.oauth2Url !== undefined) return readOAuth2(flags.oauth2Url, flags)
  if (username === undefined && basicPasswordFile === undefined) return undefined
  if (username === undefined || basicPasswordFile === undefined) {
    throw new Failure(EXIT.usage, 'give both --basic-username and --basic-password-file')
  }
  const password = readSecretFile(basicPasswordFile, '--basic-password-file')
  return { method: { case: 'basic', value: { username, password } } }
}

function readCertificate(flags: OptionFlags): Options['clientCertificate'] {
  const { certificateFile, certificateKeyFile, removeCertificate } = flags
  if (removeCertificate) return { certificatePem: '', privateKeyPem: '' }
  if (certificateFile === undefined && certificateKeyFile === undefined) return undefined
  if (certificateFile === undefined || certificateKeyFile === undefined) {
    throw new Failure(EXIT.usage, 'give both --certificate-file and --certificate-key-file')
  }
  return { certificatePem: readText(certificateFile), privateKeyPem: readText(certificateKeyFile) }
}

function readOAuth2(tokenUrl: string, flags: OptionFlags): Options['authentication'] {
  const { oauth2Client: clientId, oauth2SecretFile } = flags
  if (clientId === undefined || oauth2SecretFile === undefined) {
    throw new Failure(EXIT.usage, 'give --oauth2-client and --oauth2-secret-file too')
  }
  const clientSecret = readSecretFile(oauth2SecretFile, '--oauth2-secret-file')
  const { oauth2Scope: scope = '', oauth2Audience: audience = '' } = flags
  const credentialsInBody = flags.oauth2InBody === true
  const value = { tokenUrl, clientId, clientSecret, scope, audience, credentialsInBody }
  return { method: { case: 'oauth2', value } }
}

function readText(path: string): string {
  try {
    if (statSync(path).size > FILE_BYTES_MAX) throw new Failure(EXIT.usage, `${path} is too large`)
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof Failure) throw error
    const { code } = error as NodeJS.ErrnoException
    throw new Failure(EXIT.usage, `a file cannot be read (${code}): ${path}`)
  }
}

/** What the next events of an ordered endpoint wait for: for lists. */
export function blockOf({ options }: Endpoint): string {
  const block = options?.blockedBy
  return block ? `${block.deliveryId} (${block.waitingCount} wait)` : ''
}

/** Shows the options of an endpoint; it never has their secrets. */
export const OPTION_COLUMNS: readonly Column<ConfiguredOptions>[] = [
  { title: 'Headers', of: ({ headerNames }) => headerNames.join(', ') },
  {
    title: 'Authentication',
    of: ({ authentication: { case: method, value } }) => {
      if (method === 'oauth2') return `OAuth 2.0, as ${value.clientId} at ${value.tokenUrl}`
      return method === undefined ? '' : `basic, as ${value}`
    },
  },
  { title: 'Rate limit', of: ({ rateLimit: perSecond }) => (perSecond ? `${perSecond}/s` : '') },
  { title: 'Ordered', of: ({ ordered }) => (ordered ? 'yes' : '') },
  {
    title: 'Certificate',
    of: ({ clientCertificate: shown }) =>
      shown ? `${shown.subject}, until ${localTime.format(shown.expiresAt)}` : '',
  },
]
