import { resolve } from 'node:path'
import type { Command } from 'commander'
import { SessionService } from '../../gen/inflow/session/v1/session_service_pb.ts'
import { checkUrl, findProfile, readProfiles, storeProfiles } from './find-service.ts'
import { EXIT, Failure, jsonText, note, print, table } from './output.ts'
import { readSecretArgument } from './read-secret.ts'
import { callService } from './service-action.ts'
import { readTlsOptions } from './tls.ts'
import { addVerbs, describeNoun, local } from './verb.ts'

const LOGIN_HELP = `
  [profile]  name of the profile (default: default)
  --url <url>!  gRPC URL of the service
  --token-file <path>  file of an internal token, or - for standard input, which a terminal does not show (default: -)
  Example: login production --url https://grpc.pay.example.com:50051`

/** `inflow login`: stores the address and a token of a service after the service has accepted them. */
export function login(noun: Command): void {
  const action = async (
    name = 'default',
    { url: given, tokenFile = '-' }: { readonly url: string; readonly tokenFile?: string },
  ) => {
    if (!/^[\w.-]{1,64}$/.test(name) || name === '__proto__') {
      throw new Failure(
        EXIT.usage,
        'a profile has up to 64 letters, digits, dots, dashes and underscores',
      )
    }
    const url = checkUrl(given, '--url')
    const token = await readSecretArgument(tokenFile, '--token-file', 'Token')
    const tls = readTlsOptions(process.env)
    const { caller } = await callService({ url, token }, tls, (service) =>
      service.client(SessionService).getCaller({}),
    )
    const files = ['INFLOW_CA', 'INFLOW_CERT', 'INFLOW_KEY'].flatMap((each) => {
      const path = process.env[each]?.trim()
      return path ? [[each, resolve(path)]] : []
    })
    const profile = { INFLOW_GRPC_URL: url, INFLOW_TOKEN: token, ...Object.fromEntries(files) }
    const { profiles } = readProfiles(process.env)
    await storeProfiles(process.env, { current: name, profiles: { ...profiles, [name]: profile } })
    note(`Logged in to ${url} as ${caller?.name || caller?.id}. The profile ${name} is in use.`)
  }
  describeNoun(noun, local(action), LOGIN_HELP)
}

const LOGOUT_HELP = `
  [profile]  name of the profile (default: the one in use)
  Example: logout production`

/** `inflow logout`: removes a profile. Its token stays valid until it is revoked. */
export function logout(noun: Command): void {
  const action = async (given: string | undefined) => {
    const { current, profiles } = readProfiles(process.env)
    const name = given ?? current
    if (name === undefined) throw new Failure(EXIT.usage, 'no profile is in use')
    findProfile({ profiles }, name)
    const { [name]: _, ...others } = profiles
    await storeProfiles(process.env, {
      current: name === current ? undefined : current,
      profiles: others,
    })
    note(
      `The profile ${name} is removed. Its token is valid until it is revoked: \`inflow token revoke\`.`,
    )
  }
  describeNoun(noun, local(action), LOGOUT_HELP)
}

const PROFILE_HELP = `
  list: list the profiles of this user; * marks the one in use
  --json  print JSON, without the tokens
  Example: profile list

  use: use another profile where nothing else says which service
  <profile>  name of the profile
  Example: profile use staging`

export function profile(noun: Command): void {
  addVerbs(noun, PROFILE_HELP, {
    list: local(({ json }: { readonly json?: boolean }) => {
      const { current, profiles } = readProfiles(process.env)
      const rows = Object.entries(profiles).map(([name, { INFLOW_GRPC_URL: url = '' }]) => ({
        name,
        url,
        in_use: name === current,
      }))
      if (json) return print(jsonText({ profiles: rows }, 2))
      const text = table(rows, [
        { title: 'profile', of: ({ name, in_use }) => `${in_use ? '* ' : '  '}${name}` },
        { title: 'url', of: ({ url }) => url },
      ])
      if (text !== '') print(text)
    }),
    use: local(async (name: string) => {
      const found = readProfiles(process.env)
      findProfile(found, name)
      await storeProfiles(process.env, { ...found, current: name })
    }),
  })
}
