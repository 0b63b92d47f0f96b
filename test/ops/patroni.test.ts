import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/free-port.ts'
import { isInstalled, OPS, readOps, yamlOf } from './settings-of.ts'

const FOLDER = join(OPS, 'patroni')
const HAPROXY = '/usr/sbin/haproxy'
const DEBIAN_HAPROXY = '/etc/haproxy/haproxy.cfg'

const environmentOf = (name: string) => parseEnv(readOps(`patroni/${name}`))

/** Judges a configuration with the variables of haproxy.env. */
const checkHaproxy = (...files: string[]) =>
  spawnSync(HAPROXY, ['-c', ...files.flatMap((file) => ['-f', file])], {
    env: environmentOf('haproxy.env') as NodeJS.ProcessEnv,
    encoding: 'utf8',
  })

test.skipIf(!isInstalled(HAPROXY))('HAProxy accepts the configuration', () => {
  const file = join(FOLDER, 'haproxy.cfg')
  expect(checkHaproxy(file)).toMatchObject({ status: 0, stderr: '' })
  // At the end of Debian's own.
  if (existsSync(DEBIAN_HAPROXY)) expect(checkHaproxy(DEBIAN_HAPROXY, file).status).toBe(0)
  const wrong = join(temporaryFolder(), 'haproxy.cfg')
  writeFileSync(wrong, readFileSync(file, 'utf8').replace('DB2', 'DB4'))
  expect(checkHaproxy(wrong).status).toBe(1)
})

test.skipIf(!isInstalled('patroni'))('Patroni accepts the configuration', async () => {
  const folder = temporaryFolder()
  // It wants to reach etcd, and free ports at an address that other machines know.
  const etcd = createServer().listen(0, '127.0.0.2')
  onTestFinished(() => void etcd.close())
  await once(etcd, 'listening')
  const { port } = etcd.address() as AddressInfo
  const ports = { 2379: `${port}`, 5432: await freePort(), 8008: await freePort() }
  const env: NodeJS.ProcessEnv = { PATH: process.env['PATH'] }
  for (const [name, value = ''] of Object.entries(environmentOf('patroni.env'))) {
    const here = value
      .replaceAll(/10\.0\.\d\.10/g, '127.0.0.2')
      .replaceAll(/:(2379|5432|8008)\b/g, (_, each: '5432') => `:${ports[each]}`)
      .replace('/var/lib/postgresql', folder)
    env[name] = name.endsWith('_PASSWORD') ? 'secret' : here
  }
  const check = (file: string) => spawnSync('patroni', ['--validate-config', file], { env })
  const { status, stderr } = check(join(FOLDER, 'patroni.yml'))
  expect([status, `${stderr}`]).toEqual([0, ''])
  const wrong = join(folder, 'patroni.yml')
  writeFileSync(wrong, readOps('patroni/patroni.yml').replace('ttl: 20', 'ttl: soon'))
  expect(`${check(wrong).stderr}`).toContain('ttl')
})

test.skipIf(!isInstalled('etcd'))('etcd has the settings of its file', () => {
  // It prints its options to the standard output or, in other versions, to the standard error.
  const { stdout, stderr } = spawnSync('etcd', ['--help'], { encoding: 'utf8' })
  const options = new Set(
    [...`${stdout}${stderr}`.matchAll(/--([a-z-]+)/g)].map(([, name]) => name),
  )
  const names = Object.keys(environmentOf('etcd.env'))
  expect(names.length).toBeGreaterThan(5)
  for (const name of names) {
    expect(options).toContain(name.replace('ETCD_', '').toLowerCase().replaceAll('_', '-'))
  }
})

test('the times of Patroni obey its rule', () => {
  const [{ bootstrap }] = yamlOf('patroni/patroni.yml')
  const { ttl, loop_wait, retry_timeout } = bootstrap.dcs
  expect(ttl).toBeGreaterThanOrEqual(20)
  expect(ttl).toBeGreaterThanOrEqual(loop_wait + 2 * retry_timeout)
  expect(retry_timeout).toBeGreaterThanOrEqual(3)
})

test('the guide shows what the file has', () => {
  const guide = readFileSync(join(OPS, '../docs/scaling.md'), 'utf8')
  const [, shown = ''] = /^```yaml\n([\s\S]*?)^```$/m.exec(guide) ?? []
  expect(shown).toContain('ttl: 20')
  expect(readOps('patroni/patroni.yml')).toContain(shown)
})
