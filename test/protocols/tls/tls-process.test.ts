import { spawn } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, writeFileSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { connect } from 'node:tls'
import pino from 'pino'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { ConfigError, readConfig } from '../../../src/config/config.ts'
import { openTls } from '../../../src/server/tls.ts'
import { useDatabase } from '../../support/database.ts'
import { makeFolder } from '../../support/folder.ts'
import { startProcess } from '../../support/process.ts'
import { WAIT_LIMIT_MS } from '../../support/wait-for.ts'
import { logOf } from '../../support/workers.ts'
import { makeCertificate, type TestCertificate } from '../../webhooks/sender/certificate.ts'

const db = useDatabase(2)
const MAIN = join(import.meta.dirname, '../../../src/main.ts')

let folder: string
let own: TestCertificate

beforeAll(async () => {
  folder = await makeFolder('tls-process')
  own = makeCertificate({ commonName: 'Own' })
  put('cert.pem', own.cert)
  put('key.pem', own.key)
})

afterAll(() => rm(folder, { recursive: true, force: true }))

function put(name: string, text: string): string {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}

const at = (name: string) => join(folder, name)

/** The common name of the certificate of a server, without verification. */
async function shownAt(url: string): Promise<string> {
  const socket = connect({
    host: '127.0.0.1',
    port: Number(new URL(url).port),
    rejectUnauthorized: false,
    ALPNProtocols: ['h2', 'http/1.1'],
  })
  await once(socket, 'secureConnect')
  const { subject } = socket.getPeerCertificate()
  socket.destroy()
  return String(subject.CN)
}

test('an invalid file is reported in one line that names the setting', () => {
  const encrypted = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
    type: 'pkcs8',
    format: 'pem',
    cipher: 'aes-256-cbc',
    passphrase: 'x',
  })
  const good = { TLS_CERT: at('cert.pem'), TLS_KEY: at('key.pem') }
  const broken = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'
  const cases: [NodeJS.ProcessEnv, string][] = [
    [
      { ...good, TLS_CERT: at('none.pem') },
      `TLS_CERT is a file that does not exist: ${at('none.pem')}`,
    ],
    [{ ...good, TLS_CERT: folder }, `TLS_CERT is a file that cannot be read (EISDIR): ${folder}`],
    [
      { ...good, TLS_CERT: at('key.pem') },
      `TLS_CERT is a file without a certificate in PEM: ${at('key.pem')}`,
    ],
    [
      { ...good, TLS_CERT: put('broken.pem', broken) },
      `TLS_CERT is a file with a certificate that cannot be read: ${at('broken.pem')}`,
    ],
    [
      { ...good, TLS_KEY: at('cert.pem') },
      `TLS_KEY is a file without a private key in PEM: ${at('cert.pem')}`,
    ],
    [
      { ...good, TLS_KEY: put('locked.pem', String(encrypted)) },
      `TLS_KEY is a file with a key that needs a passphrase: ${at('locked.pem')}`,
    ],
    [
      { ...good, TLS_KEY: put('other.pem', makeCertificate().key) },
      `TLS_KEY is not the key of the certificate in TLS_CERT: ${at('other.pem')}`,
    ],
    [
      { ...good, TLS_CLIENT_CA: at('none.pem') },
      `TLS_CLIENT_CA is a file that does not exist: ${at('none.pem')}`,
    ],
    [{ TLS_CERT: at('cert.pem') }, 'TLS_CERT requires TLS_KEY'],
  ]
  if (process.getuid?.() !== 0) {
    chmodSync(put('secret.pem', own.key), 0o000)
    const unreadable = `TLS_KEY is a file that may not be read: ${at('secret.pem')}`
    cases.push([{ ...good, TLS_KEY: at('secret.pem') }, unreadable])
  }
  const log = pino({ level: 'silent' })
  const faultsOf = (env: NodeJS.ProcessEnv) => {
    try {
      openTls(readConfig(env).tls!, log)
    } catch (error) {
      if (error instanceof ConfigError) return error.faults
      throw error
    }
    return []
  }
  expect(cases.map(([env]) => faultsOf(env))).toEqual(cases.map(([, line]) => [line]))
})

test('an invalid file makes the start fail', async () => {
  const child = spawn(process.execPath, [MAIN], {
    env: {
      PATH: process.env['PATH'],
      DATABASE_URL: db.url,
      MASTER_KEY: Buffer.alloc(32, 1).toString('base64'),
      HTTP_PORT: '0',
      GRPC_PORT: '0',
      TLS_CERT: at('none.pem'),
      TLS_KEY: at('key.pem'),
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let errors = ''
  child.stderr.on('data', (text) => {
    errors += text
  })
  const [code] = await once(child, 'close')
  const line = `inflow: TLS_CERT is a file that does not exist: ${at('none.pem')}\n`
  expect([code, errors]).toEqual([1, line])
})

test('the start prints https, and SIGHUP loads the new certificate', async () => {
  const env = { DATA_DIR: at('data'), TLS_CERT: at('cert.pem'), TLS_KEY: at('key.pem') }
  const running = await startProcess({ ...env, LOG_LEVEL: 'info' })
  onTestFinished(() => running.kill())
  expect(running.httpUrl).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/)
  const kept = JSON.parse(await readFile(at('data/credentials.json'), 'utf8'))
  expect([kept.http_url, kept.grpc_url]).toEqual([running.httpUrl, running.grpcUrl])
  expect(running.grpcUrl).toMatch(/^https:/)

  const next = makeCertificate({ commonName: 'Next' })
  put('cert.pem', next.cert)
  put('key.pem', next.key)
  running.child.kill('SIGHUP')
  for (const url of [running.httpUrl, running.grpcUrl]) {
    await vi.waitFor(async () => expect(await shownAt(url)).toBe('Next'), {
      timeout: WAIT_LIMIT_MS,
    })
  }
  expect(await running.stop()).toBe(0)
})

test('SIGHUP reaches all workers', async () => {
  const { cert, key } = makeCertificate({ commonName: 'Before' })
  const files = {
    TLS_CERT: put('workers-cert.pem', cert),
    TLS_KEY: put('workers-key.pem', key),
  }
  const running = await startProcess(
    { DATABASE_URL: db.url, WORKERS: '3', LOG_LEVEL: 'info', ...files },
    true,
  )
  onTestFinished(() => running.kill())
  expect(await shownAt(running.httpUrl)).toBe('Before')
  const next = makeCertificate({ commonName: 'After' })
  put('workers-cert.pem', next.cert)
  put('workers-key.pem', next.key)
  running.child.kill('SIGHUP')
  await vi.waitFor(
    () => {
      const reloaded = logOf(running).filter(({ msg }) => msg === 'certificates reloaded')
      expect(new Set(reloaded.map(({ worker }) => worker))).toEqual(new Set([1, 2, 3]))
    },
    { timeout: WAIT_LIMIT_MS },
  )
  for (const url of [running.httpUrl, running.grpcUrl]) {
    const shown = await Promise.all([1, 2, 3].map(() => shownAt(url)))
    expect(shown).toEqual(['After', 'After', 'After'])
  }
  expect(await running.stop()).toBe(0)
})

test('SIGHUP without TLS ends the service in good order', async () => {
  const running = await startProcess({ DATABASE_URL: db.url })
  onTestFinished(() => running.kill())
  expect(running.httpUrl).toMatch(/^http:/)
  const exited = once(running.child, 'exit')
  running.child.kill('SIGHUP')
  expect(await exited).toEqual([0, null])
})
