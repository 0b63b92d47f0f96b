import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { createAddressGuard } from '../../../src/webhooks/sender/address-guard.ts'
import { createHttpClient } from '../../../src/webhooks/sender/http-client.ts'
import { makeCertificate, type TestCertificate } from './certificate.ts'

const DAY_MS = 86_400_000

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

/** Posts to an https receiver with the certificate. */
async function postTo(certificate: TestCertificate, host = '127.0.0.1') {
  let requests = 0
  const server = createServer(certificate, (_request, response) => {
    requests += 1
    response.end('ok')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const httpClient = createHttpClient({
    rules: { allowHttp: false, guard: createAddressGuard(['127.0.0.0/8']) },
    timeoutMs: 5_000,
    resolve: async () => [{ address: '127.0.0.1', family: 4 }],
  })
  closing.push(httpClient.close, () => new Promise((resolve) => server.close(resolve)))
  const { port } = server.address() as AddressInfo
  const { error } = await httpClient.post(
    { endpointId: 'ep_1', url: `https://${host}:${port}/`, concurrency: 1 },
    {},
    '{}',
  )
  return { error, requests }
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
