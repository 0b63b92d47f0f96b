import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { expect, onTestFinished, test, vi } from 'vitest'
import { useDatabase } from '../../support/database.ts'
import { makeFolder } from '../../support/folder.ts'
import { startProcess } from '../../support/process.ts'
import { WAIT_LIMIT_MS } from '../../support/wait-for.ts'
import { logOf } from '../../support/workers.ts'
import { makeCertificate } from '../../webhooks/sender/certificate.ts'

const db = useDatabase(2)

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

test('SIGHUP reaches all workers', async () => {
  const folder = await makeFolder('tls-process')
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const put = (name: string, text: string): string => {
    const path = join(folder, name)
    writeFileSync(path, text)
    return path
  }
  const { cert, key } = makeCertificate({ commonName: 'Before' })
  const files = {
    TLS_CERT: put('cert.pem', cert),
    TLS_KEY: put('key.pem', key),
  }
  const running = await startProcess(
    { DATABASE_URL: db.url, WORKERS: '3', LOG_LEVEL: 'info', ...files },
    true,
  )
  onTestFinished(() => running.kill())
  for (const url of [running.httpUrl, running.grpcUrl]) expect(url).toMatch(/^https:/)
  expect(await shownAt(running.httpUrl)).toBe('Before')
  const next = makeCertificate({ commonName: 'After' })
  put('cert.pem', next.cert)
  put('key.pem', next.key)
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
