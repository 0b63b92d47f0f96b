import type { Command } from 'commander'
import { ConfigError, readConfig } from '../../config/config.ts'
import { get, type OwnTls, ownServers } from '../../doctor/own-servers.ts'
import { findService } from '../find-service.ts'
import { EXIT, Failure, print } from '../output.ts'
import { describeNoun, local } from '../verb.ts'
import { ENV_FILE, type EnvFileOption, environmentOf } from './config.ts'

const SERVE_HELP = `
  ${ENV_FILE}

  Settings are environment variables: inflow config check shows them.

  Example: serve --env-file inflow.env`

export function serve(noun: Command): void {
  const action = async ({ envFile }: EnvFileOption) => {
    const { run } = await import('../../app/run.ts')
    await run(process.env, envFile === undefined ? [] : ['--env-file', envFile])
  }
  describeNoun(noun, local(action), SERVE_HELP)
}

interface HealthOptions extends EnvFileOption {
  readonly ready?: boolean
}

/** Shorter than the time-out of an orchestrator's check, so that the reason is printed. */
const RESPONSE_TIMEOUT_MS = 2_500

const HEALTH_HELP = `
  ${ENV_FILE}
  --ready  ask whether it can serve calls (/readyz), not only whether it lives (/healthz)

  It asks the service of these settings on this machine, and needs neither a token nor curl: made for
  the health check of a container. The exit code is 0 if the service is healthy, else 1.

  Example: health --ready`

export function health(noun: Command): void {
  describeNoun(noun, local(check), HEALTH_HELP)
}

async function check({ ready, ...options }: HealthOptions): Promise<void> {
  const { url, tls } = findServer(environmentOf(options))
  const asked = new URL(ready ? '/readyz' : '/healthz', url)
  const { statusCode, text } = await get(asked, tls, RESPONSE_TIMEOUT_MS).catch(
    (error: NodeJS.ErrnoException) => {
      throw new Failure(EXIT.refused, `no response from ${asked}: ${error.message || error.code}`)
    },
  )
  if (statusCode !== 200) {
    throw new Failure(EXIT.refused, `${asked} responds ${statusCode}: ${text.slice(0, 300)}`)
  }
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
    // For some container engines, exit codes other than 1 have a special meaning.
    const faults = error instanceof ConfigError ? error.faults : [(error as Error).message]
    throw new Failure(EXIT.refused, faults[0] ?? '', faults.slice(1))
  }
}
