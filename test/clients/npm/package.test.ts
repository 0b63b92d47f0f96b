import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core'
import { publint } from 'publint'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { SandboxService } from '../../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { ABSENT_NOUNS } from '../../../src/cli/command-line.ts'
import { MACHINE_NOUNS } from '../../../src/cli/service/nouns.ts'
import { callerEnv } from '../../cli/run-inflow.ts'
import { freePort } from '../../support/free-port.ts'
import { grpcTransport } from '../../support/grpc-client.ts'
import { openAccountOver } from '../../support/opened-account.ts'
import { useService } from '../../support/service.ts'
import { waitFor, waitUntil } from '../../support/wait-for.ts'
import { examplesOf, installTarball, npm, ROOT, run, start } from './project.ts'
import { bundle, compile, installNode20, OLD_TSC, TSC } from './tools.ts'

/** Compressed; the descriptors of the contract and its comments are most of it. */
const TARBALL_BYTES_MAX = 680_000

/** What the examples leave to the reader. */
const PRELUDES: Readonly<Record<string, string>> = {
  events: `
    const readCursor = async (): Promise<string | undefined> => process.env.CURSOR
    const keepCursor = async (cursor: string): Promise<void> => console.log('cursor', cursor)
    const handle = async (event: { kind: string, id: string }) => console.log('event', event.kind, event.id)
`,
  webhooks: `
    import fastify from 'fastify'
    const server = fastify()
    const credit = async (reference: string, amount: string) => console.log('credit', reference, amount)
    void server.listen({ port: Number(process.env.PORT) }).then(() => console.log('listening'))
`,
}

const service = useService()
const folder = mkdtempSync(join(tmpdir(), 'inflow-package-'))
const project = join(folder, 'project')
let packed: { readonly filename: string; readonly files: readonly { readonly path: string }[] }
let tarball: string
let businessId: string
let accountNumber: string

beforeAll(async () => {
  mkdirSync(join(project, 'src'), { recursive: true })
  await run(process.execPath, ['src/client/npm/build.ts', join(folder, 'dist')], { cwd: ROOT })
  const packing = await npm(['pack', join(folder, 'dist'), '--json'], folder)
  packed = [JSON.parse(packing.stdout)].flatMap((each) => Object.values(each))[0] as typeof packed
  tarball = join(folder, packed.filename)
  const manifest = JSON.parse(readFileSync(join(folder, 'dist/package.json'), 'utf8'))
  await installTarball(project, tarball, [...Object.keys(manifest.dependencies), '@types/node'])
  // The receiver's own framework, which has no part in the installation.
  symlinkSync(join(ROOT, 'node_modules/fastify'), join(project, 'node_modules/fastify'))
  businessId = (await service.business()).id
  const given = { businessId, bank: Bank.BANK_9PSB }
  accountNumber = (await openAccountOver(grpcTransport(service.grpcUrl), given)).accountNumber
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

const environment = () => callerEnv(service)

const pay = () =>
  service.client(SandboxService).simulateTransfer({
    accountNumber,
    amountMinor: 150_050n,
  })

describe('the tarball', () => {
  test('has the client, the contract and the command, and nothing else', () => {
    const paths = packed.files.map(({ path }) => path)
    const folders = paths.map((path) => path.split('/').slice(0, path.startsWith('src/') ? 2 : 1))
    expect([...new Set(folders.map((names) => names.join('/')))].sort()).toEqual([
      'LICENSE',
      'README.md',
      'gen',
      'package.json',
      'proto',
      'src/auth',
      'src/cli',
      'src/client',
      'src/core',
      'src/protobuf',
    ])
    const endings = paths.map((path) => /(\.d\.ts|\.js\.map|\.\w+|LICENSE)$/.exec(path)?.[0])
    expect([...new Set(endings)].sort()).toEqual([
      '.d.ts',
      '.js',
      '.js.map',
      '.json',
      '.md',
      '.proto',
      'LICENSE',
    ])
    expect(readFileSync(tarball).length).toBeLessThan(TARBALL_BYTES_MAX)
  })

  test('needs neither a database nor a server', () => {
    const { dependencies } = JSON.parse(readFileSync(join(folder, 'dist/package.json'), 'utf8'))
    const own = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).dependencies
    for (const [name, version] of Object.entries(dependencies)) expect(version).toBe(own[name])
    expect(Object.keys(dependencies).join()).not.toMatch(
      /pg|mikro|fastify|undici|pino|nats|embedded/,
    )
  })

  test('satisfies publint', async () => {
    const { messages } = await publint({ pkgDir: join(folder, 'dist'), strict: true, pack: false })
    expect(messages).toEqual([])
  })

  test('satisfies arethetypeswrong, for ES modules', async () => {
    const result = await checkPackage(createPackageFromTarballData(readFileSync(tarball)))
    const problems = 'problems' in result ? result.problems : []
    // A package of ES modules has nothing for resolutions that know no "exports" or no modules.
    const relevant = problems.filter(
      (each) => !('resolutionKind' in each && /node10|node16-cjs/.test(each.resolutionKind)),
    )
    expect(result).toMatchObject({ types: { kind: 'included' } })
    expect(relevant).toEqual([])
  })
})

describe('in a fresh project', () => {
  beforeAll(async () => {
    const examples: Readonly<Record<string, string>> = {
      events: PRELUDES['events'] + only('src/docs/events.md'),
      webhooks: PRELUDES['webhooks'] + only('src/docs/webhooks.md'),
      'readme-webhooks': examplesOf('src/client/npm/README.md', 'ts')[0] ?? '',
      'readme-calls': examplesOf('src/client/npm/README.md', 'ts')[1] ?? '',
    }
    for (const [name, code] of Object.entries(examples)) {
      writeFileSync(join(project, `src/${name}.ts`), local(code))
    }
    await compile(project, TSC, 'node16')
  })

  test.each([
    ['bundler', 'this', TSC, []],
    // It cannot read the types of Node, so it skips what is in declarations.
    ['node16', 'an old', OLD_TSC, ['--skipLibCheck']],
  ] as const)(
    'the examples have no type errors: resolution %s, %s TypeScript',
    async (resolution, _age, tsc, more) => {
      await compile(project, tsc, resolution, ['--noEmit', ...more])
    },
  )

  test('a program follows events, and resumes after its cursor', async () => {
    await pay()
    const first = follow('out/events.js')
    const cursor = await waitFor(() => {
      expect(first.lines, first.stderr()).toContainEqual(expect.stringMatching(/^cursor /))
      return first.lines.at(-1)?.slice('cursor '.length) ?? ''
    })
    const resumed = follow('out/events.js', { CURSOR: cursor })
    await pay()
    await waitFor(() => expect(resumed.lines, resumed.stderr()).toHaveLength(2))
    expect(resumed.lines[0]).toMatch(/^event PAYMENT_NOTIFICATION evt_/)
    expect(first.lines.slice(0, 2)).not.toContain(resumed.lines[0])
  })

  test('a receiver verifies webhooks', async () => {
    const port = await freePort()
    const url = `http://127.0.0.1:${port}/webhooks`
    const webhooks = service.client(WebhookService)
    const { endpoint, secret } = await webhooks.createEndpoint({ businessId, url })
    const env = { PORT: port, SECRET: secret }
    const receiver = start(process.execPath, ['out/webhooks.js'], { cwd: project, env })
    await waitUntil(() => receiver.lines.includes('listening'))
    await pay()
    await waitFor(() =>
      expect(receiver.lines, receiver.stderr()).toContain('credit order-1 1500.50'),
    )
    await webhooks.deleteEndpoint({ endpointId: endpoint?.id ?? '' })
    const forged = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
    })
    expect([forged.status, await forged.text()]).toEqual([401, 'missing_header'])
  })

  test('esbuild bundles a program, and only what it uses', async () => {
    const [events, webhooks] = await bundle(project, ['events', 'readme-webhooks'])
    expect(webhooks?.filter((path) => path.includes('node_modules'))).toEqual([
      'node_modules/@inflow-payments/client/src/client/verify-webhook.js',
    ])
    expect(events?.filter((path) => path.includes('/cli/'))).toEqual([])
    await pay()
    const { lines, stderr } = follow('out/events.bundle.mjs')
    await waitFor(() => expect(lines, stderr()).toContainEqual(expect.stringMatching(/^cursor /)))
  })

  test('npx inflow prints its version, and calls the service', async () => {
    const env = { ...environment(), npm_config_offline: 'true' }
    const npx = await run('npx', ['inflow', '--version'], { cwd: project, env })
    expect(npx.stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
    const inflow = (...args: string[]) =>
      run('node_modules/.bin/inflow', args, { cwd: project, env })
    const { accounts } = JSON.parse((await inflow('account', 'list', '--json')).stdout)
    expect(accounts[0]).toMatchObject({ accountNumber })
    const methods = await inflow('api')
    expect(methods.stdout).toContain('inflow.account.v1.AccountService/ListAccounts\n')
    expect((await inflow('proto', 'export', 'contract')).stdout).toMatch(/^Wrote \d+ files/)
    await expect(inflow('migrate', 'up')).rejects.toThrow('in the folder of the service')
  })

  test('all of it runs on Node 20', async ({ skip }) => {
    const node = await installNode20(join(folder, 'node20'))
    if (node === undefined)
      return skip('npm cannot install Node 20: there is no network, or no release for it')
    const calls = await run(node, ['out/readme-calls.js'], { cwd: project, env: environment() })
    expect(calls).toEqual({ stdout: expect.stringContaining(accountNumber), stderr: '' })
    const { lines, stderr } = follow('out/events.js', {}, node)
    await waitFor(() => expect(lines, stderr()).toContainEqual(expect.stringMatching(/^cursor /)))
    await run(node, ['out/readme-webhooks.js'], { cwd: project })
    await run(node, ['-e', "require('@inflow-payments/client/webhooks').verifyWebhook.call"], {
      cwd: project,
    })
    const command = ['node_modules/.bin/inflow', 'account', 'list']
    const listed = await run(node, command, { cwd: project, env: environment() })
    expect(listed.stdout).toMatch(/^REFERENCE .*\n.* order-1 /)
  })
})

/** The only example of a document. */
function only(document: string): string {
  const examples = examplesOf(document, 'ts')
  expect(examples).toHaveLength(1)
  return examples[0] ?? ''
}

/** Examples name the port and the secret of the reader's service. */
const local = (code: string) =>
  code
    .replace("'127.0.0.1:50051'", `'${new URL(service.grpcUrl).host}'`)
    .replace("'whsec_…'", 'process.env.SECRET!')

function follow(program: string, more: NodeJS.ProcessEnv = {}, node = process.execPath) {
  return start(node, [program], { cwd: project, env: { ...environment(), ...more } })
}

test('the commands that the package lacks are those of the machine of the service', () => {
  expect(ABSENT_NOUNS.map(({ name }) => name)).toEqual(MACHINE_NOUNS.map(({ name }) => name))
})
