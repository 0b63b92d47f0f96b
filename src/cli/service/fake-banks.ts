import { once } from 'node:events'
import { chmod, writeFile } from 'node:fs/promises'
import { timestampNow } from '@bufbuild/protobuf/wkt'
import { type Command, InvalidArgumentError } from 'commander'
import { BANK_CODES } from '../../banks/bank.ts'
import { type FakeBanks, startFakeBanks } from '../../banks/fake/start-fake-banks.ts'
import { localTime, numberFrom } from '../options.ts'
import { EXIT, Failure, print, visible } from '../output.ts'
import { describeNoun, local } from '../verb.ts'

// The option is not called --env-file, because node takes that option for itself in any position.
const HELP = `
  --port <number>  first of four consecutive ports; 0 picks free ports (default: 9101)
  --service-http <url>  HTTP address of the service (default: http://127.0.0.1:8080)
  --write-env <path>  write the service's settings to this file, with mode 600
  Example: fake-banks --write-env .fake-banks.env`

export function fakeBanks(noun: Command): void {
  const rules = { port: { read: numberFrom(0, 65_532) }, serviceHttp: { read: serviceUrl } }
  describeNoun(noun, local(run, rules), HELP)
}

interface FakeBanksOptions {
  readonly port?: number
  readonly serviceHttp?: string
  readonly writeEnv?: string
}

async function run({ port = 9101, serviceHttp, writeEnv }: FakeBanksOptions): Promise<void> {
  const stop = new AbortController()
  const onSignal = () => stop.abort()
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal)
  const banks = await startFakeBanks({
    port,
    serviceUrl: serviceHttp ?? 'http://127.0.0.1:8080',
    observe: (bank, line) =>
      print(visible(`${localTime.format(timestampNow())}  ${bank}  ${line}`)),
  }).catch((error: NodeJS.ErrnoException & { port?: number }) => {
    if (error.code !== 'EADDRINUSE') throw error
    throw new Failure(EXIT.refused, `port ${error.port} is in use; choose others with --port`)
  })
  try {
    const settings = settingsText(banks.environment)
    if (writeEnv !== undefined) await writeSecret(writeEnv, settings)
    print(writeEnv === undefined ? printedSettings(settings) : settingsFileHelp(writeEnv))
    print(paymentHelp(banks))
    if (!stop.signal.aborted) await once(stop.signal, 'abort')
  } finally {
    await banks.close()
  }
}

/** Valid for a shell and for `node --env-file`: no value contains a quote or a line break. */
function settingsText(environment: FakeBanks['environment']): string {
  return Object.entries(environment)
    .map(([name, value]) => `${name}='${value}'\n`)
    .join('')
}

/** An existing file keeps its mode when written, so the mode is changed first. */
async function writeSecret(path: string, text: string): Promise<void> {
  try {
    await chmod(path, 0o600).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
    })
    await writeFile(path, text, { mode: 0o600 })
  } catch (error) {
    throw new Failure(
      EXIT.refused,
      `cannot write the file of --write-env: ${(error as Error).message}`,
    )
  }
}

const printedSettings = (settings: string) =>
  `# Settings for the service; they change when the fake banks restart:\n${settings}`

const settingsFileHelp = (path: string) =>
  `The settings for the service are in ${path}. Start it in another terminal:\n\n` +
  // Without a slash, sh and zsh would search for the file in PATH.
  `set -a; . ${path.includes('/') ? path : `./${path}`}; set +a; npm start\n`

function paymentHelp(banks: FakeBanks): string {
  const lines = BANK_CODES.map((code) => `# ${code.padEnd(10)}${banks[code].url}`)
  const example =
    `curl -sS ${banks['9PSB'].url}/fake/pay ` +
    `-d '{"account_number":"<number>","amount":"1500.50"}'`
  return [
    '# The fake banks are ready:',
    ...lines,
    '# Send a payment to an account that the service opened at one of them:',
    '',
    example,
    '',
  ].join('\n')
}

function serviceUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  const local = url && /^(127\.0\.0\.1|localhost|\[::1\])$/.test(url.hostname)
  if (!local || url.protocol !== 'http:' || url.pathname !== '/' || url.search !== '') {
    throw new InvalidArgumentError('Must be a URL of this machine, such as http://127.0.0.1:8080.')
  }
  return url.origin
}
