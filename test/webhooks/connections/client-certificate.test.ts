import { generateKeyPairSync } from 'node:crypto'
import { createServer } from 'node:https'
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls'
import { describe, expect, onTestFinished, test } from 'vitest'
import { DAY_MS } from '../../../src/core/durations.ts'
import { checkCertificates } from '../../../src/doctor/check-settings.ts'
import { changeFaults } from '../../../src/webhooks/connections/apply-connection.ts'
import { createAddressGuard } from '../../../src/webhooks/sender/address-guard.ts'
import { makeCertificate, type TestCertificate } from '../../support/certificate.ts'
import { listen } from '../../support/listen.ts'
import { paymentEvent } from '../fixture.ts'
import { clientOf, useWebhooks } from '../harness.ts'

const RULES = { allowHttp: false, guard: createAddressGuard([]) }

const harness = useWebhooks()
const authority = makeCertificate({ commonName: 'Test authority' })
const inflow = makeCertificate({ commonName: 'inflow', issuer: authority })

const pemOf = ({ cert, key }: TestCertificate) => ({
  clientCertificate: { certificatePem: cert, privateKeyPem: key },
})

/** A receiver that asks for a certificate of the authority, and requires it. */
async function startReceiver() {
  const known = getCACertificates('default')
  setDefaultCACertificates([...known, authority.cert])
  const { cert, key } = makeCertificate({ commonName: 'receiver', issuer: authority })
  const subjects: string[] = []
  const server = createServer(
    { cert, key, ca: authority.cert, requestCert: true, rejectUnauthorized: true },
    (request, response) => {
      subjects.push(String((request.socket as TLSSocket).getPeerCertificate().subject.CN))
      response.end()
    },
  )
  onTestFinished(() => {
    setDefaultCACertificates(known)
    server.close()
    server.closeAllConnections()
  })
  return { url: `https://127.0.0.1:${await listen(server)}/`, subjects }
}

async function setUp(url = 'https://example.com/') {
  const webhooks = harness.started()
  const client = clientOf(webhooks)
  const businessId = await harness.business()
  const { endpoint } = await client.createEndpoint({ businessId, url })
  return { client, businessId, endpointId: endpoint!.id }
}

describe('a client certificate', () => {
  test('is presented to the receiver, and no longer once it is replaced or removed', async () => {
    const { url, subjects } = await startReceiver()
    const { client, businessId, endpointId } = await setUp(url)
    const update = (options: object) => client.updateEndpoint({ endpointId, options })
    const send = async () => {
      await harness.publish(paymentEvent(businessId))
      await harness.allCompleted(endpointId)
      return (await harness.deliveries(endpointId)).at(-1)
    }
    expect(await send()).toMatchObject({ state: 'FAILED' })
    expect(subjects).toEqual([])
    await update(pemOf(inflow))
    expect(await send()).toMatchObject({ state: 'DELIVERED' })
    await update(pemOf(makeCertificate({ commonName: 'other', issuer: authority })))
    expect(await send()).toMatchObject({ state: 'DELIVERED' })
    expect(subjects).toEqual(['inflow', 'other'])
    await update({ clientCertificate: { certificatePem: '', privateKeyPem: '' } })
    const refused = await send()
    expect(refused).toMatchObject({ state: 'FAILED' })
    expect(refused?.log?.[0]?.error).toMatch(/client certificate|TLS handshake|connection closed/)
    expect(subjects).toHaveLength(2)
  })

  test('is shown without its key, which is encrypted', async () => {
    const { client, businessId, endpointId } = await setUp()
    const { endpoint } = await client.updateEndpoint({ endpointId, options: pemOf(inflow) })
    expect(endpoint?.options?.clientCertificate).toMatchObject({
      subject: 'CN=inflow',
      fingerprintSha256: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
    const { endpoints } = await client.listEndpoints({ businessId })
    expect(endpoints).toEqual([endpoint])
    // Another URL of the receiver keeps it: the key is not sent.
    const moved = await client.updateEndpoint({ endpointId, url: 'https://other.example.com/' })
    expect(moved.endpoint?.options).toEqual(endpoint?.options)
    const { rows } = await harness.database.durablePool.query(
      "select t::text || coalesce((select string_agg(a::text, '') from audit_entry a), '') as text from webhook_endpoint t",
    )
    const body = inflow.key.split('\n')[1]!
    for (const { text } of rows) {
      expect(text).not.toContain(body)
      expect(text).not.toContain(Buffer.from(body).toString('hex'))
    }
  })

  const rsa = generateKeyPairSync('rsa', {
    modulusLength: 2_048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' },
  })
  const CERTIFICATE = 'options.clientCertificate.certificatePem'
  const KEY = 'options.clientCertificate.privateKeyPem'
  const expired = makeCertificate({ fromMs: Date.now() - 2 * DAY_MS, toMs: Date.now() - 1_000 })
  test.each([
    ['no certificate', { ...inflow, cert: 'nonsense' }, CERTIFICATE],
    ['the key among the certificates', { ...inflow, cert: inflow.cert + inflow.key }, CERTIFICATE],
    [
      'a certificate that cannot be read',
      { ...inflow, cert: inflow.cert.replace('MII', 'AAA').replace(/[A-Z]{2}/g, 'AA') },
      CERTIFICATE,
    ],
    ['a chain that is too long', { ...inflow, cert: inflow.cert.repeat(6) }, CERTIFICATE],
    ['one that has expired', expired, CERTIFICATE],
    ['no key', { ...inflow, key: '' }, KEY],
    ['an encrypted key', { ...inflow, key: rsa.privateKey }, KEY],
    ['the key of another certificate', { ...inflow, key: authority.key }, KEY],
  ])('is refused: %s', (_what, certificate, field) => {
    const faults = changeFaults({ certificate }, RULES, Date.now())
    expect(faults.map((fault) => fault.field)).toEqual([field])
    // No message repeats what was sent.
    expect(JSON.stringify(faults)).not.toContain('-----')
  })

  test('needs an https URL', async () => {
    const { client, endpointId } = await setUp('http://127.0.0.1:9/')
    const update = client.updateEndpoint({ endpointId, options: pemOf(inflow) })
    await expect(update).rejects.toThrow('options.clientCertificate')
  })

  test('is reported by the doctor before it expires', async () => {
    const { durablePool } = harness.database
    const found = async (nowMs: number) =>
      (await checkCertificates(durablePool, nowMs)).map(({ level, found: text }) => [level, text])
    expect(await found(Date.now())).toEqual([])
    const { client, endpointId } = await setUp()
    const toMs = Date.UTC(2126, 0, 31, 12)
    const certificate = makeCertificate({ toMs })
    await client.updateEndpoint({ endpointId, options: pemOf(certificate) })
    const ok = 'no client certificate of 1 endpoints expires within 30 days'
    const text = `the client certificate of the endpoint ${endpointId}`
    expect(await found(toMs - 31 * DAY_MS)).toEqual([['ok', ok]])
    expect(await found(toMs - 29 * DAY_MS)).toEqual([['warn', `${text} expires on 2126-01-31`]])
    expect(await found(toMs)).toEqual([['fail', `${text} expired on 2126-01-31`]])
    await client.deleteEndpoint({ endpointId })
    expect(await found(toMs)).toEqual([])
  })
})
