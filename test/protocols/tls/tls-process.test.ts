import { once } from 'node:events'
import { connect } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { makeCertificate, writeCertificate } from '../../support/certificate.ts'
import { useDatabase } from '../../support/database.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { startProcess } from '../../support/process.ts'
import { waitFor } from '../../support/wait-for.ts'
import { logOf } from '../../support/workers.ts'

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
  const folder = temporaryFolder()
  const files = writeCertificate(folder, makeCertificate({ commonName: 'Before' }))
  const running = await startProcess(
    { DATABASE_URL: db.url, WORKERS: '3', LOG_LEVEL: 'info', ...files },
    true,
  )
  onTestFinished(() => running.kill())
  for (const url of [running.httpUrl, running.grpcUrl]) expect(url).toMatch(/^https:/)
  expect(await shownAt(running.httpUrl)).toBe('Before')
  writeCertificate(folder, makeCertificate({ commonName: 'After' }))
  running.child.kill('SIGHUP')
  await waitFor(() => {
    const reloaded = logOf(running).filter(({ msg }) => msg === 'certificates reloaded')
    expect(new Set(reloaded.map(({ worker }) => worker))).toEqual(new Set([1, 2, 3]))
  })
  for (const url of [running.httpUrl, running.grpcUrl]) {
    const shown = await Promise.all([1, 2, 3].map(() => shownAt(url)))
    expect(shown).toEqual(['After', 'After', 'After'])
  }
  expect(await running.stop()).toBe(0)
})
