import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createSecureContext, type TlsOptions } from 'node:tls'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { ConfigError, type TlsFiles } from '../config/config.ts'
import { DAY_MS } from '../core/durations.ts'
import { registerSampledGauges } from '../core/sampled-gauges.ts'

/** The log warns about a certificate that expires within this time. */
const EXPIRY_NOTICE_MS = 14 * DAY_MS

/** TLS 1.2 with forward secrecy and authenticated encryption, and all of TLS 1.3. */
const CIPHERS = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
].join(':')

/** The certificate and key of both servers, and the certificate authority for client certificates. */
export interface Tls {
  /** Options of a server that asks for no client certificate. */
  readonly server: () => TlsOptions
  /** Options of a server that requires a client certificate if a certificate authority is configured. */
  readonly mutual: () => TlsOptions
  /** The certificates in use, by setting. */
  readonly certificates: () => Readonly<Record<string, Buffer>>
  /** Calls the listener after each successful reload. */
  onReload(listener: () => void): void
  /** Reads the files again. If a file is invalid, logs that and keeps the certificates in use. */
  reload(): void
}

/**
 * Reads the files.
 *
 * @throws ConfigError naming the setting whose file is missing or invalid, or whose key does not match the certificate
 */
export function openTls(files: TlsFiles, log: Logger): Tls {
  let current = readMaterial(files)
  noteExpiry(current, log)
  const listeners: (() => void)[] = []
  const base = () =>
    ({ cert: current.cert, key: current.key, minVersion: 'TLSv1.2', ciphers: CIPHERS }) as const
  return {
    server: base,
    mutual: () => {
      const { clientCa } = current
      if (clientCa === undefined) return base()
      return { ...base(), ca: clientCa, requestCert: true, rejectUnauthorized: true }
    },
    certificates: () => ({
      TLS_CERT: current.cert,
      ...(current.clientCa && { TLS_CLIENT_CA: current.clientCa }),
    }),
    onReload: (listener) => void listeners.push(listener),
    reload() {
      try {
        current = readMaterial(files)
      } catch (error) {
        const faults = error instanceof ConfigError ? error.faults : [String(error)]
        log.error({ faults }, 'certificates not reloaded: the old ones stay in use')
        return
      }
      for (const listener of listeners) listener()
      log.info({ expires: current.expires.toISOString() }, 'certificates reloaded')
      noteExpiry(current, log)
    },
  }
}

interface Material {
  readonly cert: Buffer
  readonly key: Buffer
  readonly clientCa: Buffer | undefined
  readonly expires: Date
}

function readMaterial(files: TlsFiles): Material {
  const faults: string[] = []
  const read = <T>(name: string, path: string, parse: (pem: Buffer) => T) => {
    try {
      const pem = readFileSync(path)
      return { pem, parsed: parse(pem) }
    } catch (error) {
      faults.push(`${name} ${reasonOf(error as NodeJS.ErrnoException)}: ${path}`)
      return undefined
    }
  }
  const cert = read('TLS_CERT', files.cert, parseCertificate)
  const key = read('TLS_KEY', files.key, parseKey)
  const clientCa =
    files.clientCa === undefined
      ? undefined
      : read('TLS_CLIENT_CA', files.clientCa, parseCertificate)
  if (cert && key && !cert.parsed.checkPrivateKey(key.parsed)) {
    faults.push(`TLS_KEY is not the key of the certificate in TLS_CERT: ${files.key}`)
  } else if (cert && key && faults.length === 0) {
    try {
      createSecureContext({ cert: cert.pem, key: key.pem, ca: clientCa?.pem })
    } catch (error) {
      faults.push(`TLS_CERT cannot be used: ${(error as Error).message}`)
    }
  }
  if (faults.length > 0 || !cert || !key) throw new ConfigError(faults)
  const expires = new Date(cert.parsed.validTo)
  return { cert: cert.pem, key: key.pem, clientCa: clientCa?.pem, expires }
}

/** The reason why a file is invalid; the text quotes nothing of the file. */
class InvalidFileError extends Error {}

function parseCertificate(pem: Buffer): X509Certificate {
  if (!pem.includes('-----BEGIN CERTIFICATE-----')) {
    throw new InvalidFileError('is a file without a certificate in PEM')
  }
  try {
    return new X509Certificate(pem)
  } catch {
    throw new InvalidFileError('is a file with a certificate that cannot be read')
  }
}

function parseKey(pem: Buffer) {
  if (!/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(pem.toString('latin1'))) {
    throw new InvalidFileError('is a file without a private key in PEM')
  }
  if (pem.includes('ENCRYPTED'))
    throw new InvalidFileError('is a file with a key that needs a passphrase')
  try {
    return createPrivateKey(pem)
  } catch {
    throw new InvalidFileError('is a file with a private key that cannot be read')
  }
}

function reasonOf(error: NodeJS.ErrnoException): string {
  if (error instanceof InvalidFileError) return error.message
  if (error.code === 'ENOENT') return 'is a file that does not exist'
  if (error.code === 'EACCES') return 'is a file that may not be read'
  return `is a file that cannot be read (${error.code ?? 'unknown'})`
}

function noteExpiry({ expires }: Material, log: Logger): void {
  const leftMs = expires.getTime() - Date.now()
  if (leftMs > EXPIRY_NOTICE_MS) return
  const text = leftMs < 0 ? 'the certificate has expired' : 'the certificate expires soon'
  log.warn({ expires: expires.toISOString() }, text)
}

/** Files with one or more certificates in PEM, by the name of their setting. */
type CertificateFiles = Readonly<Record<string, Buffer>>

const PEM = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g

/** Registers a metric of when the current certificates expire. */
export function registerCertificateMetrics(
  metrics: Registry,
  read: () => Promise<CertificateFiles>,
): void {
  registerSampledGauges(metrics, read, [
    {
      name: 'inflow_certificate_expiry_timestamp_seconds',
      help: 'When the first certificate of the file of a setting expires.',
      labelNames: ['setting'],
      measure: (files) =>
        Object.entries(files).flatMap(([setting, pem]) => {
          const expiresMs = earliestExpiryMs(pem)
          return expiresMs === undefined ? [] : [{ labels: { setting }, value: expiresMs / 1_000 }]
        }),
    },
  ])
}

/** @returns undefined if no certificate in the file can be parsed */
function earliestExpiryMs(pem: Buffer): number | undefined {
  try {
    const times = [...pem.toString('latin1').matchAll(PEM)].map(([text]) =>
      Date.parse(new X509Certificate(text).validTo),
    )
    return times.length === 0 ? undefined : Math.min(...times)
  } catch {
    return undefined
  }
}
