import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Server } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { makeCertificate, writeCertificate } from '../support/certificate.ts'
import { temporaryFolder } from '../support/folder.ts'
import { listen } from '../support/listen.ts'
import { useSharedService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { runHere } from './run-inflow.ts'

const service = useSharedService()

async function portOf(server: Server): Promise<string> {
  onTestFinished(() => void server.close())
  return `${await listen(server)}`
}

test('a healthy and ready service exits with 0', async () => {
  const HTTP_PORT = `${service.service.httpPort}`
  // The command waits for 2.5 s.
  await waitFor(async () => {
    const outcome = await runHere(['health'], { HTTP_PORT })
    expect(outcome).toEqual({ code: 0, stdout: 'healthy\n', stderr: '' })
  })
  await waitFor(async () =>
    expect((await runHere(['health', '--ready'], { HTTP_PORT })).code).toBe(0),
  )
})

test('a service that is not ready exits with 1 and the reason', async () => {
  const OPS_PORT = await portOf(
    createServer((_, response) => response.writeHead(503).end('the service is stopping')),
  )
  await waitFor(async () => {
    const { code, stderr } = await runHere(['health', '--ready'], { OPS_PORT })
    expect([code, stderr]).toEqual([
      1,
      `error: http://127.0.0.1:${OPS_PORT}/readyz responds 503: the service is stopping\n`,
    ])
  })
})

test('a service that does not run or respond, and invalid settings, exit with 1', async () => {
  await waitFor(async () => {
    const { code, stderr } = await runHere(['health'], { OPS_PORT: '1' })
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^error: no response from http:\/\/127\.0\.0\.1:1\/healthz: .*REFUSED/),
    ])
  })
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
  const files = writeCertificate(temporaryFolder(), own!)
  const serve = (certificate: { cert: string; key: string }) =>
    portOf(createTlsServer(certificate, (_, response) => response.end('ok')))
  const check = async (port: string) =>
    (await runHere(['health'], { ...files, OPS_PORT: port })).code
  const port = await serve(own!)
  await waitFor(async () => expect(await check(port)).toBe(0))
  expect(await check(await serve(other!))).toBe(1)
})
