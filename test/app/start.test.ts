import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { SessionService } from '../../gen/inflow/session/v1/session_service_pb.ts'
import {
  createAccount,
  ENV,
  has,
  ownerOf,
  ROOT,
  useEmbeddedService,
} from '../support/embedded-service.ts'
import { browserClient, cookieOf, postSession } from '../support/sign-in.ts'
import { waitFor } from '../support/wait-for.ts'
import { isAlive } from '../support/workers.ts'

const { at, start, credentials, postmaster } = useEmbeddedService()

/** The bank of the printed request is not simulated. */
const LIVE = {
  ...{ BANKS: '9PSB=live', BANK_9PSB_BASE_URL: 'http://127.0.0.1:9' },
  ...{ BANK_9PSB_PUBLIC_KEY: 'public', BANK_9PSB_PRIVATE_KEY: 'private' },
  ...{ BANK_9PSB_NOTIFICATION_USER: 'bank', BANK_9PSB_NOTIFICATION_PASSWORD: 'secret' },
}

test('the first start creates a database, a demo business and credentials', async () => {
  const { child, exited, said } = await start(undefined, undefined, { CONSOLE: 'off' })
  expect(said()).not.toContain('Console:')
  expect(said()).toContain('Create a virtual account (a sandbox bank, and the demo business):')
  const first = await credentials()
  expect(Object.keys(first)).toEqual([
    'business_id',
    'secret_key',
    'admin_token',
    'http_url',
    'grpc_url',
  ])
  for (const name of ['credentials.json', 'master.key']) {
    expect((await stat(at(join('.inflow', name)))).mode & 0o777).toBe(0o600)
  }
  const { body } = await createAccount(first)
  const server = await postmaster()
  child.kill('SIGTERM')
  expect(await exited).toBe(0)
  expect(isAlive(server)).toBe(false)

  // The next start uses other ports and keeps everything else. No bank is asked yet.
  const next = await start(undefined, undefined, LIVE)
  expect(next.said()).toContain('Create a virtual account (a live bank, and the demo business):')
  const second = await credentials()
  expect(second).toEqual({ ...first, http_url: second.http_url, grpc_url: second.grpc_url })
  expect(second.http_url).not.toBe(first.http_url)
  expect(await createAccount(second)).toEqual({ replayed: 'true', body })
  await waitFor(() => expect(next.said()).toMatch(/^Console: \S+$/m))
  await expectLink(next.said())
  next.child.kill('SIGINT')
  expect(await next.exited).toBe(0)
})

/** The printed link signs a browser in, once. */
async function expectLink(said: string): Promise<void> {
  const [, httpUrl = '', code = ''] =
    /^Console: (http:\S+)\/console\/sign-in#(ic_\S+)$/m.exec(said) ?? []
  expect(httpUrl).toBe((await credentials()).http_url)
  const signedIn = await postSession({ httpUrl }, { code })
  expect(signedIn.status).toBe(204)
  const client = browserClient({ httpUrl }, SessionService, cookieOf(signedIn))
  expect((await client.getCaller({})).caller!.scopes).toEqual(['admin'])
  expect((await postSession({ httpUrl }, { code })).status).toBe(401)
}

test('the printed curl command and link work with workers; SIGTERM to npm start or npx inflow serve alone ends the service and its database', async () => {
  for (const [program, args, WORKERS] of [
    ['npm', ['start'], '2'],
    ['npx', ['inflow', 'serve'], '1'],
  ] as const) {
    const { child, said } = await start(program, args, { WORKERS })
    if (program === 'npm') {
      if (has('curl')) expectCurl(said())
      await waitFor(() => expect(said()).toMatch(/^Console: \S+$/m))
      await expectLink(said())
    }
    const server = await postmaster()
    const service = ownerOf(server)
    expect(service).not.toBe(child.pid)
    expect([service, server].filter(isAlive)).toEqual([service, server])
    process.kill(child.pid!, 'SIGTERM')
    await waitFor(() => expect([service, server].filter(isAlive)).toEqual([]))
    expect(existsSync(at('.inflow/postgres/postmaster.pid'))).toBe(false)
  }
})

function expectCurl(said: string): void {
  const [line] = /^curl [\s\S]*-d '\{.*\}'$/m.exec(said) ?? []
  const response = JSON.parse(execFileSync('sh', ['-c', line!], { encoding: 'utf8' }))
  expect(response).toMatchObject({ status: true, message: 'Account reserved' })
}

const OLD_NODE = oldNode()

test.skipIf(OLD_NODE === undefined)('an old Node reports which version is required', () => {
  const { status, stdout, stderr } = spawnSync(OLD_NODE!, [join(ROOT, 'src/main.ts')], {
    encoding: 'utf8',
    env: ENV,
    cwd: at(''),
  })
  const { engines } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  expect([status, stdout]).toEqual([1, ''])
  expect(stderr).toMatch(/^inflow: Node [0-9.]+ or newer is required, this is [^\n]+\n$/)
  expect(`>=${/Node ([0-9.]+)/.exec(stderr)?.[1]}`).toBe(engines.node)
})

/** The path of a Node on this machine that cannot read TypeScript. */
function oldNode(): string | undefined {
  const paths = (process.env['PATH'] ?? '').split(':').map((folder) => join(folder, 'node'))
  return paths.find((node) => {
    const { stdout } = spawnSync(node, ['-p', 'process.features.typescript ?? "none"'])
    return existsSync(node) && String(stdout).trim() === 'none'
  })
}

test('engines is the minimum that the dependencies require', () => {
  const read = (path: string) => JSON.parse(readFileSync(join(ROOT, path), 'utf8'))
  const { dependencies, engines } = read('package.json')
  const needed = Object.keys(dependencies)
    .map((name): string => read(`node_modules/${name}/package.json`).engines?.node ?? '>=0')
    .map((range) => /(?:^|\|\|)\s*>=\s*([0-9.x]+)\s*$/.exec(range)?.[1])
    .map((version) => (version ?? '0').split('.').slice(0, 2).map(Number))
    .map(([major = 0, minor = 0]) => [major, minor || 0] as const)
    .sort(([major, minor], [other, otherMinor]) => other - major || otherMinor - minor)
  expect(engines.node).toBe(`>=${needed[0]!.join('.')}`)
})
