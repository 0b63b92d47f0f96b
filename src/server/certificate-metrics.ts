import { X509Certificate } from 'node:crypto'
import type { Registry } from 'prom-client'
import { registerSampledGauges } from '../core/sampled-gauges.ts'

/** A file of one or more certificates in PEM, by the name of its setting. */
export type CertificateFiles = Readonly<Record<string, Buffer>>

const PEM = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g

/** Registers when the certificates expire that the service uses now. */
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

/** @returns undefined: the file has no certificate that can be read */
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
