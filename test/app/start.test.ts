import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { SessionService } from '../../gen/inflow/session/v1/session_service_pb.ts'
import {
  createAccount,
  has,
  ownerOf,
  ROOT,
  useEmbeddedService,
} from '../support/embedded-service.ts'
import { NINE_PSB_AWAY } from '../support/live-banks.ts'
import { browserClient, cookieOf, postSession } from '../support/sign-in.ts'
import { waitFor } from '../support/wait-for.ts'
import { isAlive } from '../support/workers.ts'

const { at, start, credentials, postmaster } = useEmbeddedService()

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
  // The bank of the printed request is not simulated.
  const next = await start(undefined, undefined, NINE_PSB_AWAY)
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
