import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pino from 'pino'
import { Registry } from 'prom-client'
import { expect, onTestFinished, test } from 'vitest'
import { openTls, registerCertificateMetrics } from '../../../src/server/tls.ts'
import { makeFolder } from '../../support/folder.ts'
import { waitFor } from '../../support/wait-for.ts'
import { makeCertificate } from '../../webhooks/sender/certificate.ts'

const NAME = 'inflow_certificate_expiry_timestamp_seconds'

/** A time in some days, in whole seconds as certificates have it. */
const inDays = (days: number) => Math.floor(Date.now() / 1_000) + days * 86_400

const expiring = (seconds: number) => makeCertificate({ toMs: seconds * 1_000 })

test('shows when the certificates in use expire, of several in a file the first, also after a reload', async () => {
  const folder = await makeFolder('certificates')
  onTestFinished(() => rm(folder, { recursive: true }))
  const [cert, key, clientCa] = ['cert', 'key', 'ca'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ]
  const write = async (seconds: number) => {
    const made = expiring(seconds)
    await writeFile(cert, made.cert)
    await writeFile(key, made.key)
  }
  const [first, second, soon, late] = [inDays(30), inDays(60), inDays(5), inDays(400)]
  await write(first)
  await writeFile(clientCa, `${expiring(late).cert}\n${expiring(soon).cert}`)
  const tls = openTls({ cert, key, clientCa }, pino({ level: 'silent' }))
  const registry = new Registry()
  registerCertificateMetrics(registry, async () => ({
    ...tls.certificates(),
    RELAY_TLS_CA: Buffer.from('not a certificate'),
  }))
  const shown = async () =>
    (await registry.metrics()).split('\n').filter((line) => line.startsWith(NAME))
  expect(await shown()).toEqual([
    `${NAME}{setting="TLS_CERT"} ${first}`,
    `${NAME}{setting="TLS_CLIENT_CA"} ${soon}`,
  ])
  await write(second)
  tls.reload()
  await waitFor(async () =>
    expect((await shown())[0]).toBe(`${NAME}{setting="TLS_CERT"} ${second}`),
  )
})
