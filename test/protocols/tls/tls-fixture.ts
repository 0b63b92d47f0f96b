import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { afterAll, beforeAll } from 'vitest'
import type { Scope } from '../../../src/auth/caller.ts'
import type { Config } from '../../../src/config/config.ts'
import { makeCertificate, type TestCertificate } from '../../support/certificate.ts'
import { useDatabase } from '../../support/database.ts'
import { makeFolder } from '../../support/folder.ts'
import { type Instance, startInstance } from '../../support/instance.ts'

export const PAYMENTS = 'spiffe://example.org/payments'
export const REVERSALS = 'spiffe://example.org/reversals'
export const FEED = 'spiffe://example.org/feed'

/** The scopes that the certificate of each URI grants. */
const CLIENT_SCOPES: ReadonlyMap<string, ReadonlySet<Scope>> = new Map([
  [PAYMENTS, new Set<Scope>(['payments:write', 'read'])],
  [REVERSALS, new Set<Scope>(['payments:reverse'])],
  [FEED, new Set<Scope>(['events:subscribe'])],
])

/** An instance with TLS at both servers, and the authority that its certificate is of. */
export interface TlsInstance extends Omit<Instance, 'client' | 'announceStop'> {
  readonly authority: TestCertificate
  readonly database: ReturnType<typeof useDatabase>['database']
  /** Writes files anew: what is not given stays. */
  write(files: Partial<Record<'cert' | 'key' | 'clientCa', string>>): void
  path(name: 'cert' | 'key' | 'clientCa' | 'authority'): string
}

/** @param mutual whether the gRPC server asks for certificates */
export function useTls(mutual: boolean, log?: Logger): TlsInstance {
  const db = useDatabase()
  const authority = makeCertificate({ commonName: 'Authority', hosts: [], addresses: [] })
  let folder: string
  let instance: Instance
  const path = (name: string) => join(folder, `${name}.pem`)
  const write: TlsInstance['write'] = (files) => {
    for (const [name, text] of Object.entries(files)) writeFileSync(path(name), text)
  }
  beforeAll(async () => {
    folder = await makeFolder('tls')
    writeFileSync(path('authority'), authority.cert)
    const { cert, key } = makeCertificate({ issuer: authority, commonName: 'First' })
    write({ cert, key, clientCa: authority.cert })
    const overrides: Partial<Config> = {
      tls: {
        cert: path('cert'),
        key: path('key'),
        clientCa: mutual ? path('clientCa') : undefined,
      },
      tlsClientScopes: mutual ? CLIENT_SCOPES : new Map(),
    }
    instance = await startInstance(db.url, overrides, log)
  })
  afterAll(async () => {
    await instance?.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return {
    authority,
    write,
    path,
    get database() {
      return db.database
    },
    get httpUrl() {
      return instance.httpUrl
    },
    get grpcUrl() {
      return instance.grpcUrl
    },
    get metrics() {
      return instance.metrics
    },
    get opsUrl() {
      return instance.opsUrl
    },
    reloadTls: () => instance.reloadTls(),
    close: () => instance.close(),
  }
}
