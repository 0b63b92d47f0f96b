import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ADMIN_TOKEN, useService } from '../support/service.ts'
import { inflow, runHere, temporaryFolder } from './run-inflow.ts'

const service = useService()
const another = useService()
const CLOSED = 'http://127.0.0.1:1'

/** A user without profiles. Commands run where there is no local service. */
function newUser() {
  const folder = temporaryFolder()
  const env = { XDG_CONFIG_HOME: folder, DATA_DIR: join(folder, 'none') }
  return {
    file: join(folder, 'inflow/profiles.json'),
    folder,
    run: (args: readonly string[], more = {}) => runHere(args, { ...env, ...more }),
    /** Logs in with a token on standard input. */
    login: (args: readonly string[], input = ADMIN_TOKEN) =>
      inflow(['login', ...args], { env, input: `${input}\n` }),
  }
}

const LIST = ['business', 'list']
const ALIAS = [...LIST, '--json']
const businesses = (outcome: { readonly stdout: string }) =>
  JSON.parse(outcome.stdout).businesses.map(({ name }: { name: string }) => name)

test('a login stores a service once it has accepted the token, for its owner alone', async () => {
  const user = newUser()
  await service.business('Here')
  const { code, stderr, stdout } = await user.login(['staging', '--url', service.grpcUrl])
  expect([code, stdout, stderr]).toEqual([
    0,
    '',
    `Logged in to ${service.grpcUrl} as bootstrap. The profile staging is in use.\n`,
  ])
  expect(statSync(user.file).mode & 0o777).toBe(0o600)
  expect(businesses(await user.run(ALIAS))).toEqual(['Here'])
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

test('what names a service comes before the profile in use', async () => {
  const user = newUser()
  await another.business('There')
  await user.login(['there', '--url', another.grpcUrl])
  await user.login(['here', '--url', service.grpcUrl])
  const there = { INFLOW_GRPC_URL: another.grpcUrl, INFLOW_TOKEN: ADMIN_TOKEN }
  const here = { INFLOW_GRPC_URL: service.grpcUrl, INFLOW_TOKEN: ADMIN_TOKEN }
  const url = ['--url', another.grpcUrl, '--token', ADMIN_TOKEN]
  const named = [...ALIAS, '--profile', 'there']
  expect(businesses(await user.run(ALIAS))).not.toContain('There')
  expect(businesses(await user.run(named))).toEqual(['There'])
  expect(businesses(await user.run(ALIAS, { INFLOW_PROFILE: 'there' }))).toEqual(['There'])
  expect(businesses(await user.run(ALIAS, there))).toEqual(['There'])
  expect(businesses(await user.run(named, here))).toEqual(['There'])
  expect(businesses(await user.run([...ALIAS, ...url]))).toEqual(['There'])
  expect(businesses(await user.run([...ALIAS, ...url], { INFLOW_PROFILE: 'here' }))).toEqual([
    'There',
  ])
  const credentials = { grpc_url: another.grpcUrl, admin_token: ADMIN_TOKEN }
  writeFileSync(join(user.folder, 'credentials.json'), JSON.stringify(credentials))
  expect(businesses(await user.run(ALIAS, { DATA_DIR: user.folder }))).toEqual(['There'])
})

test('the token of a profile reaches no other service', async () => {
  const user = newUser()
  await user.login(['--url', service.grpcUrl])
  const urls = ['--url', another.grpcUrl]
  expect(await user.run([...LIST, ...urls, '--profile', 'default'])).toMatchObject({
    code: 2,
    stderr: 'error: --profile and --url both name a service: remove one\n',
  })
  expect((await user.run([...LIST, ...urls])).stderr).toMatch(/^error: no token for/)
  const elsewhere = { INFLOW_GRPC_URL: another.grpcUrl }
  expect((await user.run(LIST, elsewhere)).stderr).toMatch(/^error: no token for/)
})

test('profiles are listed, used and removed', async () => {
  const user = newUser()
  await user.login(['one', '--url', service.grpcUrl])
  await user.login(['two', '--url', another.grpcUrl])
  expect((await user.run(['profile', 'use', 'one'])).code).toBe(0)
  expect((await user.run(['profile', 'list'])).stdout).toBe(
    `PROFILE  URL\n* one    ${service.grpcUrl}\n  two    ${another.grpcUrl}\n`,
  )
  expect((await user.run(['logout'])).stderr).toMatch(/^The profile one is removed\./)
  expect(JSON.parse(readFileSync(user.file, 'utf8'))).toMatchObject({ profiles: { two: {} } })
  expect((await user.run(LIST)).stderr).toMatch(/^error: no service found/)
  const unknown = await user.run([...LIST, '--profile', 'constructor'])
  expect([unknown.code, unknown.stderr]).toEqual([
    2,
    expect.stringMatching(/^error: no profile constructor\n/),
  ])
})

test('a file that is no JSON is named', async () => {
  const user = newUser()
  await user.login(['--url', service.grpcUrl])
  writeFileSync(user.file, '{')
  expect(await user.run(LIST)).toMatchObject({
    code: 2,
    stderr: `error: ${user.file} is no JSON: correct it, or remove it\n`,
  })
})

test('doctor checks the service of a profile, and nothing of this machine', async () => {
  const user = newUser()
  await user.login(['here', '--url', service.grpcUrl])
  const well = await user.run(['doctor', '--profile', 'here'], { DATABASE_URL: 'postgres://none' })
  expect([well.code, well.stderr]).toEqual([0, 'All checks passed.\n'])
  expect(well.stdout).toMatch(/✓ ok {4}gRPC at http:\S+ is healthy/)
  expect(well.stdout).not.toMatch(/Database|Settings/)
  const none = await user.run(['doctor', '--profile', 'there'])
  expect([none.code, none.stdout]).toEqual([2, ''])
})
