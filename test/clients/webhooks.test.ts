import { execFileSync } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { join } from 'node:path'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { DeliveryStatus } from '../../gen/inflow/webhook/v1/delivery_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { temporaryFolder } from '../cli/run-inflow.ts'
import { CUSTOMER } from '../protocols/matrix/scene.ts'
import { freePort } from '../support/free-port.ts'
import { type ReceivedRequest, startReceiver } from '../support/receiver.ts'
import { useSharedService } from '../support/service.ts'
import { waitFor, waitUntil } from '../support/wait-for.ts'
import { installed } from './installed.ts'
import { type Program, startProgram } from './program.ts'

const service = useSharedService()
const at = (path: string) => join(import.meta.dirname, path)

interface Language {
  readonly program: string | undefined
  /** The command that starts the receiver at a port. */
  command(program: string, port: string): readonly string[]
}

const LANGUAGES: Readonly<Record<string, Language>> = {
  Python: {
    program: installed.python,
    command: (python, port) => [python, at('python/webhooks.py'), port],
  },
  Go: {
    program: installed.go,
    command(go, port) {
      const built = join(temporaryFolder(), 'webhooks')
      execFileSync(go, ['build', '-o', built, at('go/webhooks.go')])
      return [built, port]
    },
  },
  PHP: {
    program: installed.php,
    command: (php, port) => [php, '-S', `127.0.0.1:${port}`, at('php/webhooks.php')],
  },
}

let businessId: string
let accountNumber: string
beforeAll(async () => {
  businessId = (await service.business('Acme')).id
  const { account } = await service.client(AccountService).createAccount({
    ...{ businessId, reference: 'order-1', bank: Bank.BANK_9PSB, ...CUSTOMER },
  })
  accountNumber = account!.accountNumber
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

async function listening(url: string, { child, stderr }: Program) {
  await waitUntil(async () => {
    if (child.exitCode !== null) throw new Error(`the receiver ended: ${stderr()}`)
    return await fetch(url).then(
      () => true,
      () => false,
    )
  })
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

describe.each(Object.entries(LANGUAGES))('the receiver in %s', (_name, { program, command }) => {
  /** Starts it with the secret of an endpoint. */
  async function start(port: string, secret: string) {
    const env = { INFLOW_WEBHOOK_SECRET: secret }
    const url = `http://127.0.0.1:${port}/webhooks`
    const receiver = startProgram(command(program!, port), env)
    await listening(url, receiver)
    return { url, receiver }
  }

  test.skipIf(!program)('acknowledges what the service sends it, and reads it', async () => {
    const port = await freePort()
    const { endpointId, secret } = await addEndpoint(`http://127.0.0.1:${port}/webhooks`)
    const { receiver } = await start(port, secret)
    await pay()
    const [, eventId] = await waitFor(() => {
      const found = /^PAYMENT_NOTIFICATION (evt_\w+)$/m.exec(receiver.stdout())
      expect(found).not.toBeNull()
      return found!
    })
    const status = DeliveryStatus.DELIVERED
    await waitFor(async () => {
      const { deliveries } = await service.client(WebhookService).listDeliveries({ endpointId })
      expect(deliveries).toMatchObject([{ eventId, status }])
    })
  })

  test.skipIf(!program)('refuses what was not signed, is old, or was altered', async () => {
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
      { headers: signedAt(now + 330) },
      // Without its secret a receiver must not accept the key that everybody knows.
      { headers: signedAt(now, '') },
    ]) {
      expect([changed, await send(url, delivery, changed)]).toEqual([changed, 401])
    }
    expect(await send(url, { headers: {}, rawBody: body })).toBe(401)
    expect(await send(url, delivery, { headers: signedAt(now - 270) })).toBe(204)

    // While a secret is rotated, both sign.
    await service.client(WebhookService).rotateSecret({ endpointId })
    await pay()
    const rotated = await recorder.next()
    expect(String(rotated.headers['webhook-signature'])).toMatch(/^v1,\S+ v1,\S+$/)
    expect(await send(url, rotated)).toBe(204)
    await waitFor(() => expect(receiver.stdout().match(/PAYMENT_NOTIFICATION/g)).toHaveLength(3))
  })

  test.skipIf(!program)('refuses everything without a secret', async () => {
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
