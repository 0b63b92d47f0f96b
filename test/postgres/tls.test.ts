import { chownSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { ENTITIES } from '../../src/app/entities.ts'
import { startEmbedded } from '../../src/postgres/embedded/embedded.ts'
import { openDatabase, openReadPool } from '../../src/postgres/orm.ts'
import { makeCertificate } from '../support/certificate.ts'
import { temporaryFolder } from '../support/folder.ts'

/** A PostgreSQL with a certificate of this machine. @returns its URL, and the file of the certificate */
async function startWithTls() {
  const parent = temporaryFolder()
  const folder = join(parent, 'postgres')
  await (await startEmbedded({ folder, settings: { fsync: 'off' } })).stop()
  const { cert, key } = makeCertificate({ hosts: ['db.example'] })
  const { uid, gid } = statSync(folder)
  for (const [name, text] of Object.entries({ 'server.crt': cert, 'server.key': key })) {
    writeFileSync(join(folder, name), text, { mode: 0o600 })
    chownSync(join(folder, name), uid, gid)
  }
  const server = await startEmbedded({ folder, settings: { fsync: 'off', ssl: 'on' } })
  onTestFinished(server.stop)
  const authority = join(parent, 'authority.pem')
  writeFileSync(authority, cert)
  return { url: server.url, authority }
}

/** How the connections of each pool are encrypted. */
async function encryptionOf(url: string): Promise<readonly unknown[]> {
  const database = await openDatabase(url, ENTITIES)
  const replica = openReadPool(url, {}, 1)
  try {
    const text = 'select ssl, version from pg_stat_ssl where pid = pg_backend_pid()'
    const { durablePool, relaxedPool, recordingPool } = database
    const read = async (each: typeof durablePool) => (await each.query(text)).rows[0]
    return await Promise.all([durablePool, relaxedPool, recordingPool, replica].map(read))
  } finally {
    await Promise.all([database.close(), replica.end()])
  }
}

test('with sslmode=verify-full every connection is encrypted, and the database believed only by its certificate', async () => {
  const { url, authority } = await startWithTls()
  await expect(encryptionOf(`${url}?sslmode=verify-full`)).rejects.toThrow(/self-signed/)
  const verified = await encryptionOf(`${url}?sslmode=verify-full&sslrootcert=${authority}`)
  expect(verified).toEqual(Array(4).fill({ ssl: true, version: 'TLSv1.3' }))
  const otherName = `${url.replace('127.0.0.1', 'localhost')}?sslmode=verify-full&sslrootcert=${authority}`
  await expect(encryptionOf(otherName)).rejects.toThrow(/altnames/)
  expect(await encryptionOf(url)).toEqual(Array(4).fill({ ssl: false, version: null }))
})
