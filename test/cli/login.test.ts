import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { findService, withProfile } from '../../src/cli/find-service.ts'
import { temporaryFolder } from '../support/folder.ts'
import { ADMIN_TOKEN, useSharedService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { inflow, runHere } from './run-inflow.ts'

const service = useSharedService()
/** Commands fail if they call it. */
const ANOTHER = 'http://another.example:50051'
const CLOSED = 'http://127.0.0.1:1'

/** A user without profiles. Commands run where there is no local service. */
function newUser() {
  const folder = temporaryFolder()
  const env = { XDG_CONFIG_HOME: folder, DATA_DIR: join(folder, 'none') }
  return {
    file: join(folder, 'inflow/profiles.json'),
    folder,
    run: (args: readonly string[], more = {}) => runHere(args, { ...env, ...more }),
    /** Logs in with the token of a file. */
    login: (args: readonly string[], token = ADMIN_TOKEN) => {
      const file = join(folder, 'token')
      writeFileSync(file, token)
      return runHere(['login', ...args, '--token-file', file], env)
    },
  }
}

const LIST = ['business', 'list']

test('a login stores a service once it has accepted the token, for its owner alone', async () => {
  const user = newUser()
  const { code, stderr, stdout } = await inflow(['login', 'staging', '--url', service.grpcUrl], {
    env: { XDG_CONFIG_HOME: user.folder },
    input: `${ADMIN_TOKEN}\n`,
  })
  expect([code, stdout, stderr]).toEqual([
    0,
    '',
    `Logged in to ${service.grpcUrl} as bootstrap. The profile staging is in use.\n`,
  ])
  expect(statSync(user.file).mode & 0o777).toBe(0o600)
  expect((await user.run(LIST)).code).toBe(0)
  expect((await user.run(['profile', 'list', '--json'])).stdout).not.toContain(ADMIN_TOKEN)
})

test.each([
  ['a token that is refused', ['--url'], 'it_wrong', 1, /\(unauthorized\)\n$/],
  [
    'a service that does not respond',
    ['--url', CLOSED],
    ADMIN_TOKEN,
    3,
    /cannot reach the service/,
  ],
  ['what is no URL', ['--url', 'nonsense'], ADMIN_TOKEN, 2, /^error: --url must be a URL/],
  [
    'a name with other characters',
    ['a b', '--url', CLOSED],
    ADMIN_TOKEN,
    2,
    /^error: a profile has up to/,
  ],
] as const)('%s stores nothing', async (_, args, token, exitCode, text) => {
  const user = newUser()
  const given = args.length === 1 ? [...args, service.grpcUrl] : args
  const { code, stderr } = await user.login(given, token)
  expect([code, stderr]).toEqual([exitCode, expect.stringMatching(text)])
  expect((await user.run(['profile', 'list'])).stderr).toBe('None found.\n')
})

test('what names a service comes before the profile in use, whose token reaches no other', () => {
  const { file, folder } = newUser()
  const profile = (name: string) => ({ INFLOW_GRPC_URL: `http://${name}`, INFLOW_TOKEN: name })
  const profiles = { here: profile('here'), there: profile('there') }
  mkdirSync(dirname(file))
  writeFileSync(file, JSON.stringify({ current: 'here', profiles }))
  const bare = { XDG_CONFIG_HOME: folder, DATA_DIR: join(folder, 'none') }
  /** The token that is used. */
  const found = (
    options: Parameters<typeof findService>[0] & { serviceProfile?: string },
    env = {},
  ) => findService(options, withProfile(options, { ...bare, ...env })).token
  const elsewhere = profile('elsewhere')
  const url = { serviceUrl: elsewhere.INFLOW_GRPC_URL, token: 'mine' }
  expect(found({})).toBe('here')
  expect(found({ serviceProfile: 'there' }, elsewhere)).toBe('there')
  expect(found({}, { INFLOW_PROFILE: 'there' })).toBe('there')
  expect(found({}, elsewhere)).toBe('elsewhere')
  expect(found(url, { INFLOW_PROFILE: 'here' })).toBe('mine')
  const credentials = { grpc_url: ANOTHER, admin_token: 'local' }
  writeFileSync(join(folder, 'credentials.json'), JSON.stringify(credentials))
  expect(found({}, { DATA_DIR: folder })).toBe('local')
  expect(() => found({ serviceUrl: ANOTHER })).toThrow('no token for')
  expect(() => found({}, { INFLOW_GRPC_URL: ANOTHER })).toThrow('no token for')
  expect(() => found({ serviceUrl: ANOTHER, serviceProfile: 'here' })).toThrow(
    '--profile and --url both name a service: remove one',
  )
  expect(() => found({ serviceProfile: 'constructor' })).toThrow('no profile constructor')
})

test('profiles are listed, used and removed', async () => {
  const user = newUser()
  const { grpcUrl } = service
  await user.login(['one', '--url', grpcUrl])
  await user.login(['two', '--url', grpcUrl])
  expect((await user.run(['profile', 'use', 'one'])).code).toBe(0)
  expect((await user.run(['profile', 'list'])).stdout).toBe(
    `PROFILE  URL\n* one    ${grpcUrl}\n  two    ${grpcUrl}\n`,
  )
  expect((await user.run(['logout'])).stderr).toMatch(/^The profile one is removed\./)
  expect(JSON.parse(readFileSync(user.file, 'utf8'))).toMatchObject({ profiles: { two: {} } })
  expect((await user.run(LIST)).stderr).toMatch(/^error: no service found/)
  writeFileSync(user.file, '{')
  expect(await user.run(LIST)).toMatchObject({
    code: 2,
    stderr: `error: ${user.file} is no JSON: correct it, or remove it\n`,
  })
})

test('doctor checks the service of a profile, and nothing of this machine', async () => {
  const user = newUser()
  await user.login(['here', '--url', service.grpcUrl])
  const well = await waitFor(async () => {
    const run = await user.run(['doctor', '--profile', 'here'], { DATABASE_URL: 'postgres://none' })
    expect([run.code, run.stderr]).toEqual([0, 'All checks passed.\n'])
    return run
  })
  expect(well.stdout).toMatch(/✓ ok {4}gRPC at http:\S+ is healthy/)
  expect(well.stdout).not.toMatch(/Database|Settings/)
  const none = await user.run(['doctor', '--profile', 'there'])
  expect([none.code, none.stdout]).toEqual([2, ''])
})
