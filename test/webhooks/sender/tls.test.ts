import { expect, test } from 'vitest'
import { startReceiver } from '../../support/receiver.ts'
import { makeCertificate, type TestCertificate } from './certificate.ts'
import { closing, httpClient } from './raw-receiver.ts'

const DAY_MS = 86_400_000

/** Posts to an https receiver with the certificate. */
async function postTo(certificate: TestCertificate) {
  const receiver = await startReceiver(certificate)
  closing.push(receiver.close)
  const { error } = await httpClient({ allowHttp: false }).post(receiver.url, {}, '{}')
  return { error, requests: receiver.requests.length }
}

test('a self-signed certificate is refused, and nothing is sent', async () => {
  const outcome = await postTo(makeCertificate())
  expect(outcome).toEqual({ error: 'TLS certificate is self-signed', requests: 0 })
})

test('a certificate that has expired is refused, and the error says when', async () => {
  const toMs = Date.UTC(2026, 0, 31, 12)
  const outcome = await postTo(makeCertificate({ fromMs: toMs - DAY_MS, toMs }))
  expect(outcome).toEqual({ error: 'TLS certificate expired on 2026-01-31', requests: 0 })
})

test('a certificate that is not valid yet is refused, and the error says when it is', async () => {
  const fromMs = Date.UTC(2126, 0, 31, 12)
  const outcome = await postTo(makeCertificate({ fromMs, toMs: fromMs + DAY_MS }))
  expect(outcome).toEqual({ error: 'TLS certificate not valid before 2126-01-31', requests: 0 })
})
