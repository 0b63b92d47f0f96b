import { createHmac } from 'node:crypto'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { DeliveryStatus } from '../../gen/inflow/webhook/v1/delivery_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { freePort } from '../support/free-port.ts'
import { grpcTransport } from '../support/grpc-client.ts'
import { openAccountOver } from '../support/opened-account.ts'
import { startServer } from '../support/program.ts'
import { type ReceivedRequest, startReceiver } from '../support/receiver.ts'
import { useSharedService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { guideProgram } from './installed.ts'

const service = useSharedService()
let businessId: string
let accountNumber: string
beforeAll(async () => {
  businessId = (await service.business('Acme')).id
  const given = { businessId, bank: Bank.BANK_9PSB }
  accountNumber = (await openAccountOver(grpcTransport(service.grpcUrl), given)).accountNumber
})

let payments = 0
async function pay() {
  payments += 1
  const sessionId = `SESSION-RECEIVERS-${payments}`
  const request = { bank: Bank.BANK_9PSB, accountNumber, sessionId, amountMinor: 150_050n }
  await service.client(TransactionService).recordPayment(request)
}

async function addEndpoint(url: string) {
  const created = await service.client(WebhookService).createEndpoint({ businessId, url })
  const endpointId = created.endpoint!.id
  onTestFinished(async () => {
    await service.client(WebhookService).deleteEndpoint({ endpointId })
  })
  return { endpointId, secret: created.secret }
}

/** Sends a delivery as it arrived, or changed. @returns the status */
async function send(
  url: string,
  { headers, rawBody }: Pick<ReceivedRequest, 'headers' | 'rawBody'>,
  changed: { readonly headers?: Record<string, string>; readonly body?: string } = {},
): Promise<number> {
  const kept = Object.entries(headers).filter(([name]) => /^(webhook-|content-type)/.test(name))
  const response = await fetch(url, {
    method: 'POST',
    headers: { ...(Object.fromEntries(kept) as Record<string, string>), ...changed.headers },
    body: changed.body ?? rawBody,
  })
  return response.status
}

function sign(secret: string, id: string, timestamp: number, body: string): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`
}

describe.each(Object.entries(guideProgram('webhooks')))('the receiver in %s', (_name, command) => {
  /** Starts it with the secret of an endpoint. */
  async function start(port: string, secret: string) {
    const env = { INFLOW_WEBHOOK_SECRET: secret }
    const url = `http://127.0.0.1:${port}/webhooks`
    return { url, receiver: await startServer(command!(port), env, url) }
  }

  test.skipIf(!command)('accepts what is genuine, nothing unsigned, old or altered', async () => {
    const recorder = await startReceiver()
    onTestFinished(recorder.close)
    const { endpointId, secret } = await addEndpoint(recorder.url)
    const { url, receiver } = await start(await freePort(), secret)
    await pay()
    const delivery = await recorder.next()
    const { rawBody: body } = delivery
    const id = String(delivery.headers['webhook-id'])
    const signature = String(delivery.headers['webhook-signature'])
    expect(await send(url, delivery)).toBe(204)

    const now = Math.floor(Date.now() / 1000)
    const signedAt = (timestamp: number, key = secret) => ({
      'webhook-timestamp': String(timestamp),
      'webhook-signature': sign(key, id, timestamp, body),
    })
    const forged = { body: body.replace('1500.50', '9500.50') }
    expect(forged.body).not.toBe(body)
    const another = sign(`whsec_${Buffer.alloc(24, 7).toString('base64')}`, id, now, body)
    for (const changed of [
      forged,
      { headers: { 'webhook-signature': another, 'webhook-timestamp': String(now) } },
      { headers: { 'webhook-signature': signature.replace('v1,', 'v2,') } },
      { headers: { 'webhook-signature': '' } },
      { headers: { 'webhook-signature': 'v1,ünsigned' } },
      { headers: { 'webhook-id': 'evt_another' } },
      { headers: { 'webhook-timestamp': String(now + 1) } },
      { headers: { 'webhook-timestamp': 'now' } },
      { headers: signedAt(now - 330) },
      { headers: signedAt(now + 900) },
      // Without its secret a receiver must not accept the key that everybody knows.
      { headers: signedAt(now, '') },
    ]) {
      expect([changed, await send(url, delivery, changed)]).toEqual([changed, 401])
    }
    expect(await send(url, { headers: {}, rawBody: body })).toBe(401)
    const recent = Math.floor(Date.now() / 1000) - 200
    expect(await send(url, delivery, { headers: signedAt(recent) })).toBe(204)

    // While a secret is rotated, both sign.
    await service.client(WebhookService).rotateSecret({ endpointId })
    await pay()
    const rotated = await recorder.next()
    expect(String(rotated.headers['webhook-signature'])).toMatch(/^v1,\S+ v1,\S+$/)
    expect(await send(url, rotated)).toBe(204)
    await waitFor(() => expect(receiver.stdout().match(/PAYMENT_NOTIFICATION/g)).toHaveLength(3))

    await service.client(WebhookService).updateEndpoint({ endpointId, url })
    await pay()
    await waitFor(async () => {
      const { deliveries } = await service.client(WebhookService).listDeliveries({ endpointId })
      const [, , , eventId] = receiver.stdout().match(/(?<=^PAYMENT_NOTIFICATION )evt_\w+$/gm) ?? []
      expect(eventId).toBeDefined()
      expect(deliveries).toContainEqual(
        expect.objectContaining({ eventId, status: DeliveryStatus.DELIVERED }),
      )
    })
  })

  test.skipIf(!command)('refuses everything without a secret', async () => {
    const { url, receiver } = await start(await freePort(), 'whsec_')
    const now = Math.floor(Date.now() / 1000)
    const body = '{"event":"PAYMENT_NOTIFICATION","data":{"event_id":"evt_1"}}'
    const headers = {
      'webhook-id': 'evt_1',
      'webhook-timestamp': String(now),
      'webhook-signature': sign('', 'evt_1', now, body),
    }
    expect(await send(url, { headers, rawBody: body })).toBe(401)
    expect(receiver.stdout()).not.toContain('evt_1')
  })
})
