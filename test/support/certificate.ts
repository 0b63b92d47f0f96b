import { generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DAY_MS } from '../../src/core/durations.ts'

/** A certificate and its key, in PEM. */
export interface TestCertificate {
  readonly cert: string
  readonly key: string
  readonly commonName: string
}

interface CertificateOptions {
  readonly hosts?: readonly string[]
  readonly addresses?: readonly string[]
  readonly uris?: readonly string[]
  readonly commonName?: string
  /** The issuing authority; absent: self-signed. */
  readonly issuer?: TestCertificate
  /** Milliseconds since the Unix epoch. */
  readonly fromMs?: number
  readonly toMs?: number
}

/**
 * Creates a certificate (RFC 5280). A self-signed one may also serve as a certificate authority.
 * Node creates keys and signatures, but cannot encode certificates.
 */
export function makeCertificate(options: CertificateOptions = {}): TestCertificate {
  const { hosts = ['localhost'], addresses = ['127.0.0.1'], uris = [], issuer } = options
  const { commonName = 'Inflow test' } = options
  const { fromMs = Date.now() - DAY_MS, toMs = Date.now() + DAY_MS } = options
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const algorithm = sequence(oid(ECDSA_WITH_SHA256))
  const nameOf = (text: string) =>
    sequence(set(sequence(oid(COMMON_NAME), der(0x0c, Buffer.from(text)))))
  const names = [
    ...hosts.map((host) => der(0x82, Buffer.from(host))),
    ...addresses.map((address) => der(0x87, Buffer.from(address.split('.').map(Number)))),
    ...uris.map((uri) => der(0x86, Buffer.from(uri))),
  ]
  const extensions = sequence(
    extension(SUBJECT_ALT_NAME, sequence(...names)),
    extension(BASIC_CONSTRAINTS, sequence(...(issuer ? [] : [der(0x01, Buffer.of(0xff))]))),
  )
  const body = sequence(
    der(0xa0, der(0x02, Buffer.of(2))),
    der(0x02, Buffer.concat([Buffer.of(1), randomBytes(8)])),
    algorithm,
    nameOf(issuer?.commonName ?? commonName),
    sequence(time(fromMs), time(toMs)),
    nameOf(commonName),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, extensions),
  )
  const signature = der(
    0x03,
    Buffer.concat([Buffer.of(0), sign('sha256', body, issuer?.key ?? privateKey)]),
  )
  const certificate = sequence(body, algorithm, signature)
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${certificate.toString('base64')}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    commonName,
  }
}

/** Writes a certificate and its key into a folder. @returns the settings that name the files */
export function writeCertificate(folder: string, { cert, key }: TestCertificate) {
  const files = { TLS_CERT: join(folder, 'cert.pem'), TLS_KEY: join(folder, 'key.pem') }
  writeFileSync(files.TLS_CERT, cert)
  writeFileSync(files.TLS_KEY, key)
  return files
}

/** Object identifiers, encoded. */
const ECDSA_WITH_SHA256 = '2a8648ce3d040302'
const COMMON_NAME = '550403'
const SUBJECT_ALT_NAME = '551d11'
const BASIC_CONSTRAINTS = '551d13'

/** One value of DER: tag, length, content. */
function der(tag: number, content: Buffer): Buffer {
  const { length } = content
  const size =
    length < 128
      ? Buffer.of(length)
      : length < 256
        ? Buffer.of(0x81, length)
        : Buffer.of(0x82, length >> 8, length & 255)
  return Buffer.concat([Buffer.of(tag), size, content])
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return der(0x30, Buffer.concat(parts))
}

function set(...parts: readonly Buffer[]): Buffer {
  return der(0x31, Buffer.concat(parts))
}

function oid(encoded: string): Buffer {
  return der(0x06, Buffer.from(encoded, 'hex'))
}

function extension(id: string, value: Buffer): Buffer {
  return sequence(oid(id), der(0x04, value))
}

/** GeneralizedTime: any year. */
function time(ms: number): Buffer {
  const text = new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, '')
  return der(0x18, Buffer.from(text))
}
