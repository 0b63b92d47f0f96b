import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Server } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { useSharedService } from '../support/service.ts'
import { makeCertificate } from '../webhooks/sender/certificate.ts'
import { runHere, temporaryFolder } from './run-inflow.ts'

const service = useSharedService()

async function portOf(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return `${(server.address() as AddressInfo).port}`
}

test('a healthy and ready service exits with 0', async () => {
  const HTTP_PORT = `${service.service.httpPort}`
  const outcome = await runHere(['health'], { HTTP_PORT })
  expect(outcome).toEqual({ code: 0, stdout: 'healthy\n', stderr: '' })
  expect((await runHere(['health', '--ready'], { HTTP_PORT })).code).toBe(0)
})

test('a service that is not ready exits with 1 and the reason', async () => {
  const OPS_PORT = await portOf(
    createServer((_, response) => response.writeHead(503).end('the service is stopping')),
  )
  const { code, stderr } = await runHere(['health', '--ready'], { OPS_PORT })
  expect([code, stderr]).toEqual([
    1,
    `error: http://127.0.0.1:${OPS_PORT}/readyz responds 503: the service is stopping\n`,
  ])
})

test('a service that does not run or respond, and invalid settings, exit with 1', async () => {
  const refused = await runHere(['health'], { OPS_PORT: '1' })
  expect([refused.code, refused.stderr]).toEqual([
    1,
    expect.stringMatching(/^error: no response from http:\/\/127\.0\.0\.1:1\/healthz: .*REFUSED/),
  ])
  const silent = await portOf(createServer(() => undefined))
  const timedOut = await runHere(['health'], { OPS_PORT: silent })
  expect([timedOut.code, timedOut.stderr]).toEqual([1, expect.stringMatching(/abort|time/i)])
  expect((await runHere(['health'], { HTTP_PORT: 'x' })).code).toBe(1)
})

test('over TLS it accepts the certificate of TLS_CERT, whatever its name, and no other', async () => {
  const authority = makeCertificate({ commonName: 'Authority', hosts: [], addresses: [] })
  const [own, other] = [0, 1].map(() =>
    makeCertificate({ issuer: authority, hosts: ['pay.example'], addresses: [] }),
  )
  const folder = temporaryFolder()
  const TLS_CERT = join(folder, 'cert.pem')
  const TLS_KEY = join(folder, 'key.pem')
  writeFileSync(TLS_CERT, own!.cert)
  writeFileSync(TLS_KEY, own!.key)
  const serve = (certificate: { cert: string; key: string }) =>
    portOf(createTlsServer(certificate, (_, response) => response.end('ok')))
  const check = async (port: string) =>
    (await runHere(['health'], { TLS_CERT, TLS_KEY, OPS_PORT: port })).code
  expect(await check(await serve(own!))).toBe(0)
  expect(await check(await serve(other!))).toBe(1)
})
