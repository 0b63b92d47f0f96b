import { existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { writePrivate } from '../core/private-file.ts'
import { EXIT, Failure } from './failure.ts'
import { credentialsFile } from './find-service.ts'

/** A service and how to call it: variables of the environment and their values, such as INFLOW_GRPC_URL. */
type Profile = Readonly<Record<string, string>>

/** What the file has. */
export interface Profiles {
  /** The name of the one that is used if nothing else says which service; absent: none. */
  readonly current?: string | undefined
  readonly profiles: Readonly<Record<string, Profile>>
}

const FILE = 'profiles.json'

const folderOf = (env: NodeJS.ProcessEnv) =>
  join(env['XDG_CONFIG_HOME'] || join(env['HOME'] || homedir(), '.config'), 'inflow')

/**
 * The environment with the variables of a profile: of the named one, in place of what is set; else of the current
 * one, if neither an option, the environment nor a local service says which service is meant.
 *
 * @param named by `--profile`; absent: INFLOW_PROFILE
 * @throws Failure if the profile does not exist, or is named beside a URL
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

/** The environment with a profile in place of all that it says of a service, whose token must reach no other. */
function inPlace(env: NodeJS.ProcessEnv, profile: Profile | undefined): NodeJS.ProcessEnv {
  const others = Object.entries(env).filter(([name]) => !name.startsWith('INFLOW_'))
  return { ...Object.fromEntries(others), ...profile }
}

/** @throws Failure if there is none of the name */
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

/** Writes the profiles of this user, in a file that only the user may read. */
export const storeProfiles = (env: NodeJS.ProcessEnv, profiles: Profiles) =>
  writePrivate(folderOf(env), FILE, `${JSON.stringify(profiles, null, 2)}\n`)
