import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import type { Command } from 'commander'
import { ConfigError, readConfig } from '../../config/config.ts'
import { type OwnTls, ownServers } from '../../doctor/own-servers.ts'
import { EXIT, Failure } from '../failure.ts'
import { findService } from '../find-service.ts'
import { print } from '../output.ts'
import { describe } from '../verb.ts'
import { ENV_FILE, type EnvFileOption, environmentOf } from './env-file.ts'

/** `inflow serve` */
export function serve(noun: Command): void {
  describe(noun.helpOption('-h, --help', 'show help'), ENV_FILE)
    .addHelpText(
      'after',
      '\nExample:\n  HTTP_PORT=8081 inflow serve\n\nSettings are environment variables: inflow config check shows them.',
    )
    .action(async ({ envFile }: EnvFileOption) => {
      const { run } = await import('../../app/run.ts')
      await run(process.env, envFile === undefined ? [] : ['--env-file', envFile])
    })
}

interface HealthOptions extends EnvFileOption {
  readonly ready?: boolean
}

/** Below the time-out that orchestrators give a check, so that the reason is printed. */
const RESPONSE_TIMEOUT_MS = 2_500

/** `inflow health` */
export function health(noun: Command): void {
  describe(
    noun.helpOption('-h, --help', 'show help'),
    `
    ${ENV_FILE}
    --ready  ask whether it can serve calls (/readyz), not only whether it lives (/healthz)`,
  )
    .addHelpText(
      'after',
      '\nIt asks the service of these settings on this machine, and needs neither a token nor curl: made for\n' +
        'the health check of a container. The exit code is 0 if the service is healthy, else 1.\n\n' +
        'Example:\n  inflow health --ready',
    )
    .action(check)
}

async function check({ ready, ...options }: HealthOptions): Promise<void> {
  const { url, tls } = findServer(environmentOf(options))
  const asked = new URL(ready ? '/readyz' : '/healthz', url)
  const { status, text } = await get(asked, tls).catch((error: NodeJS.ErrnoException) => {
    throw new Failure(EXIT.refused, `no response from ${asked}: ${error.message || error.code}`)
  })
  if (status !== 200) throw new Failure(EXIT.refused, `${asked} responds ${status}: ${text}`)
  print('healthy')
}

function findServer(env: NodeJS.ProcessEnv): { readonly url: string; readonly tls: OwnTls } {
  try {
    const config = readConfig(env)
    const own = ownServers(config)
    if (own !== undefined) return { url: own.opsUrl, tls: own.tls }
    const { opsUrl = '' } = findService({ token: '-' }, { DATA_DIR: config.dataDir })
    return { url: opsUrl, tls: {} }
  } catch (error) {
    // Any exit code but 1 has a meaning of its own for some engines.
    const faults = error instanceof ConfigError ? error.faults : [(error as Error).message]
    throw new Failure(EXIT.refused, faults[0] ?? '', faults.slice(1))
  }
}

function get(url: URL, tls: OwnTls): Promise<{ readonly status: number; readonly text: string }> {
  const signal = AbortSignal.timeout(RESPONSE_TIMEOUT_MS)
  return new Promise((resolve, reject) => {
    const request = url.protocol === 'https:' ? requestHttps : requestHttp
    request(url, { ...tls, signal, agent: false }, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (part) => {
        text = (text + part).slice(0, 300)
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
      response.on('error', reject)
    })
      .on('error', reject)
      .end()
  })
}
