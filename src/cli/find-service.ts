import { existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { writePrivate } from '../core/private-file.ts'
import { EXIT, Failure } from './output.ts'
import { readSecretFile } from './read-secret.ts'

/** The address of the service, and the credential to call it with. */
export interface ServiceAddress {
  /** http:// (HTTP/2 without TLS) or https:// */
  readonly url: string
  /** Empty: the client certificate authenticates the caller. */
  readonly token: string
  /** The URL of the HTTP server; undefined unless the service is local. */
  readonly httpUrl: string | undefined
  /** The URL of the server with /readyz; undefined unless the service is local. */
  readonly opsUrl: string | undefined
  /** The demo business; undefined unless the service is local. */
  readonly businessId: string | undefined
}

/**
 * Finds the service by the options, then the environment, then the credentials file of a local
 * service. The token in the file is sent only to the service of the file.
 *
 * @throws Failure that says what to do
 */
export function findService(
  options: TokenOptions & { readonly serviceUrl?: string },
  env: NodeJS.ProcessEnv,
): ServiceAddress {
  const path = credentialsFile(env)
  const givenUrl = options.serviceUrl ?? (env['INFLOW_GRPC_URL']?.trim() || undefined)
  const token = givenToken(options, env)
  if (givenUrl !== undefined) {
    const url = checkUrl(givenUrl, options.serviceUrl === undefined ? 'INFLOW_GRPC_URL' : '--url')
    const local = readCredentials(path, 'ignore errors')
    const same = local?.url === url ? local : undefined
    const certificateOnly = env['INFLOW_CERT']?.trim() ? '' : undefined
    const found = token ?? same?.token ?? certificateOnly
    if (found === undefined) {
      throw new Failure(
        EXIT.usage,
        `no token for ${url}: set INFLOW_TOKEN or INFLOW_TOKEN_FILE, or pass --token-file`,
      )
    }
    const { httpUrl, opsUrl, businessId } = same ?? {}
    return { url, token: found, httpUrl, opsUrl, businessId }
  }
  const local = readCredentials(path)
  if (!local) {
    throw new Failure(
      EXIT.unreachable,
      `no service found: start one here with \`npm start\` (it writes ${path}), \`inflow login\` to one, or set INFLOW_GRPC_URL and INFLOW_TOKEN`,
    )
  }
  return { ...local, token: token ?? local.token }
}

/** The credentials file of a local service. */
const credentialsFile = (env: NodeJS.ProcessEnv): string =>
  join(env['DATA_DIR']?.trim() || '.inflow', 'credentials.json')

/** @returns the origin of the URL @throws Failure naming the source if the text is not the URL of a service */
export function checkUrl(text: string, source: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !/^https?:$/.test(url.protocol)) {
    throw new Failure(EXIT.usage, `${source} must be a URL such as http://127.0.0.1:50051`)
  }
  return url.origin
}

function readCredentials(path: string, onError?: 'ignore errors'): ServiceAddress | undefined {
  try {
    const found: Record<string, unknown> = { ...JSON.parse(readFileSync(path, 'utf8')) }
    const { grpc_url: url, admin_token: token, business_id: businessId } = found
    const httpUrl = typeof found['http_url'] === 'string' ? found['http_url'] : undefined
    const opsUrl = found['ops_url']
    if (typeof url !== 'string' || typeof token !== 'string') {
      throw new Error('grpc_url or admin_token is missing')
    }
    return {
      url: checkUrl(url, `grpc_url in ${path}`),
      token,
      httpUrl,
      opsUrl: typeof opsUrl === 'string' ? opsUrl : httpUrl,
      businessId: typeof businessId === 'string' ? businessId : undefined,
    }
  } catch (error) {
    if (onError === 'ignore errors' || (error as NodeJS.ErrnoException).code === 'ENOENT') {
      return undefined
    }
    if (error instanceof Failure) throw error
    throw new Failure(EXIT.unreachable, `cannot read ${path}: ${(error as Error).message}`)
  }
}

/** The options that give a token. */
export interface TokenOptions {
  readonly token?: string
  readonly tokenFile?: string
}

/**
 * Returns the token of the options or else of the environment; undefined if there is none. A file keeps the token out of
 * the process list, which all users of the machine can read.
 *
 * @throws Failure if a file cannot be read, two sources of the same rank are given, or the text cannot be a token
 */
function givenToken(options: TokenOptions, env: NodeJS.ProcessEnv): string | undefined {
  const token = findToken(options, env)
  if (token !== undefined && !/^[!-~]*$/.test(token)) {
    throw new Failure(EXIT.usage, 'the token has a character that no token has: copy it again')
  }
  return token
}

function findToken(options: TokenOptions, env: NodeJS.ProcessEnv): string | undefined {
  const { token, tokenFile } = options
  if (token !== undefined && tokenFile !== undefined) {
    throw new Failure(EXIT.usage, '--token and --token-file are both given: remove one')
  }
  if (token !== undefined) return token
  if (tokenFile !== undefined) return readSecretFile(tokenFile, '--token-file')
  const own = env['INFLOW_TOKEN']?.trim() || undefined
  const file = env['INFLOW_TOKEN_FILE']?.trim() || undefined
  if (own !== undefined && file !== undefined) {
    throw new Failure(EXIT.usage, 'INFLOW_TOKEN and INFLOW_TOKEN_FILE are both set: remove one')
  }
  return file === undefined ? own : readSecretFile(file, 'INFLOW_TOKEN_FILE')
}

/** The environment variables to call a service with, such as INFLOW_GRPC_URL, and their values. */
type Profile = Readonly<Record<string, string>>

/** The content of the file of profiles. */
interface Profiles {
  /** The name of the profile that is used if nothing else names a service; absent: none. */
  readonly current?: string | undefined
  readonly profiles: Readonly<Record<string, Profile>>
}

const FILE = 'profiles.json'

const folderOf = (env: NodeJS.ProcessEnv) =>
  join(env['XDG_CONFIG_HOME'] || join(env['HOME'] || homedir(), '.config'), 'inflow')

/**
 * Returns the environment with the variables of a profile. A named profile replaces the variables that are set. Without a
 * name, the current profile is used if neither an option, the environment nor a local service determines the service.
 *
 * @param named the value of `--profile`; absent: INFLOW_PROFILE
 * @throws Failure if the profile does not exist, or a URL is given too
 */
export function withProfile(
  {
    serviceProfile: named,
    serviceUrl,
  }: { readonly serviceProfile?: string; readonly serviceUrl?: string },
  env: NodeJS.ProcessEnv,
): NodeJS.ProcessEnv {
  if (serviceUrl !== undefined) {
    if (named === undefined) return env
    throw new Failure(EXIT.usage, '--profile and --url both name a service: remove one')
  }
  const name = named ?? (env['INFLOW_PROFILE']?.trim() || undefined)
  if (name !== undefined) return inPlace(env, findProfile(readProfiles(env), name))
  if (env['INFLOW_GRPC_URL']?.trim() || existsSync(credentialsFile(env))) return env
  const { current, profiles } = readProfiles(env)
  return current === undefined ? env : inPlace(env, profiles[current])
}

/** Replaces all variables about a service by those of a profile: a token must not reach another service. */
function inPlace(env: NodeJS.ProcessEnv, profile: Profile | undefined): NodeJS.ProcessEnv {
  const others = Object.entries(env).filter(([name]) => !name.startsWith('INFLOW_'))
  return { ...Object.fromEntries(others), ...profile }
}

/** @throws Failure if no profile has the name */
export function findProfile({ profiles }: Profiles, name: string): Profile {
  const found = Object.hasOwn(profiles, name) ? profiles[name] : undefined
  if (found === undefined) {
    throw new Failure(EXIT.usage, `no profile ${name}`, [
      'see `inflow profile list`, or store it with `inflow login`',
    ])
  }
  return found
}

/** Reads the profiles of this user. @throws Failure if the file cannot be read */
export function readProfiles(env: NodeJS.ProcessEnv): Profiles {
  const path = join(folderOf(env), FILE)
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { profiles: {} }
    throw new Failure(EXIT.usage, `cannot read ${path}: ${(error as Error).message}`)
  }
  try {
    const { current, profiles } = JSON.parse(text) as Profiles
    return { current, profiles: { ...profiles } }
  } catch {
    throw new Failure(EXIT.usage, `${path} is no JSON: correct it, or remove it`)
  }
}

/** Writes the profiles of this user to a file that only the user can read. */
export const storeProfiles = (env: NodeJS.ProcessEnv, profiles: Profiles) =>
  writePrivate(folderOf(env), FILE, `${JSON.stringify(profiles, null, 2)}\n`)
