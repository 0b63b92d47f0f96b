import { generateKeyPairSync } from 'node:crypto'
import { chmodSync, writeFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pino from 'pino'
import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { ConfigError, readConfig } from '../../../src/config/config.ts'
import { openTls, registerCertificateMetrics } from '../../../src/server/tls.ts'
import { makeCertificate, writeCertificate } from '../../support/certificate.ts'
import { temporaryFolder } from '../../support/folder.ts'

const NAME = 'inflow_certificate_expiry_timestamp_seconds'

/** A time in some days, in whole seconds as certificates have it. */
const inDays = (days: number) => Math.floor(Date.now() / 1_000) + days * 86_400

const expiring = (seconds: number) => makeCertificate({ toMs: seconds * 1_000 })

test('shows when the certificates in use expire, of several in a file the first, also after a reload', async () => {
  const folder = temporaryFolder()
  const clientCa = join(folder, 'ca.pem')
  const write = (seconds: number) => writeCertificate(folder, expiring(seconds))
  const [first, second, soon, late] = [inDays(30), inDays(60), inDays(5), inDays(400)]
  const { TLS_CERT: cert, TLS_KEY: key } = write(first)
  await writeFile(clientCa, `${expiring(late).cert}\n${expiring(soon).cert}`)
  const tls = openTls({ cert, key, clientCa }, pino({ level: 'silent' }))
  const shown = async () => {
    // A sample is kept for some seconds, by registry.
    const registry = new Registry()
    registerCertificateMetrics(registry, async () => ({
      ...tls.certificates(),
      RELAY_TLS_CA: Buffer.from('not a certificate'),
    }))
    return (await registry.metrics()).split('\n').filter((line) => line.startsWith(NAME))
  }
  expect(await shown()).toEqual([
    `${NAME}{setting="TLS_CERT"} ${first}`,
    `${NAME}{setting="TLS_CLIENT_CA"} ${soon}`,
  ])
  write(second)
  tls.reload()
  expect((await shown())[0]).toBe(`${NAME}{setting="TLS_CERT"} ${second}`)
})

test('an invalid file is reported in one line that names the setting', async () => {
  const folder = temporaryFolder()
  const at = (name: string) => join(folder, name)
  const put = (name: string, text: string): string => {
    writeFileSync(at(name), text)
    return at(name)
  }
  const own = makeCertificate({ commonName: 'Own' })
  const good = writeCertificate(folder, own)
  const encrypted = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
    type: 'pkcs8',
    format: 'pem',
    cipher: 'aes-256-cbc',
    passphrase: 'x',
  })
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
  const faultsOf = (env: NodeJS.ProcessEnv) => {
    try {
      openTls(readConfig(env).tls!, pino({ level: 'silent' }))
    } catch (error) {
      if (error instanceof ConfigError) return error.faults
      throw error
    }
    return []
  }
  expect(cases.map(([env]) => faultsOf(env))).toEqual(cases.map(([, line]) => [line]))
})
