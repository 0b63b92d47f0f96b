import { describe, expect, test } from 'vitest'
import { NameError, type Resolve } from '../../../src/core/addresses.ts'
import { makeCertificate } from '../../support/certificate.ts'
import { startEgressProxy } from '../../support/egress-proxy.ts'
import { closing, closingReceiver, httpClient, LOOPBACK } from './raw-receiver.ts'

async function proxy(refusal?: Parameters<typeof startEgressProxy>[0]) {
  const started = await startEgressProxy(refusal)
  closing.push(started.close)
  return started
}

/** Resolves these names, and the proxy's own. */
const knows =
  (names: Readonly<Record<string, string>>): Resolve =>
  async (hostname) => {
    if (hostname === 'proxy.internal') return LOOPBACK
    const address = names[hostname]
    if (address === undefined) throw new NameError(hostname, 'ENOTFOUND')
    return [{ address, family: 4 }]
  }

/** A client that posts through a proxy, and knows no name but that of the proxy. */
const through = (
  { port }: { readonly port: number },
  more: Parameters<typeof httpClient>[0] = {},
) => httpClient({ proxyUrl: `http://proxy.internal:${port}`, resolve: knows({}), ...more })

describe('with an egress proxy', () => {
  test('requests go through it by host name, on connections that are reused', async () => {
    const [egress, peer] = [await proxy(), await closingReceiver()]
    const { post } = through(egress, { cidrs: [], concurrency: 1 })
    const url = `http://receiver.example:${peer.port}/hook?a=b`
    for (let i = 0; i < 3; i++)
      expect((await post(url, { 'webhook-id': `${i}` }, '1')).status).toBe(200)
    expect(egress.targets).toEqual([`receiver.example:${peer.port}`])
    expect(egress.authorizations).toEqual([undefined])
    const request = await peer.next()
    expect(request).toMatchObject({ path: '/hook?a=b', rawBody: '1' })
    expect(request.headers.host).toBe(`receiver.example:${peer.port}`)
  })

  test('its user and password are sent to it, and not to the receiver', async () => {
    const [egress, peer] = [await proxy(), await closingReceiver()]
    const { post } = through(egress, {
      proxyUrl: `http://us%40er:p%3Ass@proxy.internal:${egress.port}`,
    })
    expect((await post(`http://receiver.example:${peer.port}/`, {}, '1')).status).toBe(200)
    const credentials = Buffer.from('us@er:p:ss').toString('base64')
    expect(egress.authorizations).toEqual([`Basic ${credentials}`])
    expect(JSON.stringify((await peer.next()).headers)).not.toContain(credentials)
  })

  test('TLS is end to end with the receiver, whose certificate is verified', async () => {
    const [egress, peer] = [await proxy(), await closingReceiver(makeCertificate())]
    const { post } = through(egress)
    const { error } = await post(`https://receiver.example:${peer.port}/`, {}, '1')
    expect([error, peer.requests]).toEqual(['TLS certificate is self-signed', []])
    expect(egress.targets).toEqual([`receiver.example:${peer.port}`])
  })

  test('URLs known here to be internal are refused before the proxy', async () => {
    const [egress, peer] = [await proxy(), await closingReceiver()]
    const { post } = through(egress, {
      resolve: knows({ 'inside.example': '10.0.0.1', 'outside.example': '192.0.43.8' }),
      cidrs: [],
    })
    const outcomes = await Promise.all(
      [
        'http://127.0.0.1/',
        'http://localhost/',
        'http://user:secret@outside.example/',
        'http://inside.example/',
      ].map((url) => post(url, {}, '1')),
    )
    expect(outcomes.map(({ error }) => error)).toEqual([
      'refused: the URL must be a public address, but is a loopback address (127.0.0.1)',
      'refused: the URL must be a public address, but is this machine (localhost)',
      'refused: the URL must not contain a user name or password',
      'refused: resolves to a private address (10.0.0.1)',
    ])
    expect(egress.targets).toEqual([])
    expect((await post(`http://outside.example:${peer.port}/`, {}, '1')).status).toBe(200)
  })

  test('its refusals are reported, and its password is not', async () => {
    const egress = await proxy((target) => (target.startsWith('refused') ? 403 : 407))
    const { post, close } = through(egress, {
      proxyUrl: `http://user:hidden@proxy.internal:${egress.port}`,
    })
    const errors = [
      (await post('http://refused.example/', {}, '1')).error,
      (await post('https://other.example/', {}, '1')).error,
    ]
    expect(errors).toEqual([
      'the egress proxy responded with 403',
      'the egress proxy responded with 407',
    ])
    expect(egress.targets).toEqual(['refused.example:80', 'other.example:443'])
    await egress.close()
    expect((await post('http://third.example/', {}, '1')).error).toBe(
      'the egress proxy does not respond',
    )
    await close()
  })

  test('a receiver that it cannot reach delays no other', async () => {
    const peer = await closingReceiver()
    const egress = await proxy((target) => (target.startsWith('hangs') ? 'hangs' : undefined))
    const { post, close } = through(egress)
    const hanging = Array.from({ length: 20 }, () => post('http://hangs.example/', {}, '1'))
    expect((await post(`http://receiver.example:${peer.port}/`, {}, '1')).status).toBe(200)
    await close()
    // On a busy machine they end by themselves before.
    const ends = ['the service stopped', 'the egress proxy does not respond']
    for (const { error } of await Promise.all(hanging)) expect(error).toBeOneOf(ends)
  })
})
