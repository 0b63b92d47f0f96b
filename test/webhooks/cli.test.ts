import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { verifyWebhook } from '../../src/client/verify-webhook.ts'
import { callerEnv, type Running, runHere, startInflow } from '../cli/run-inflow.ts'
import { temporaryFolder } from '../support/folder.ts'
import { grpcTransport } from '../support/grpc-client.ts'
import { openAccountOver } from '../support/opened-account.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { useSharedService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'

const service = useSharedService()

let businessId: string
let accountNumber: string
let payments = 0

beforeAll(async () => {
  businessId = (await service.business('Acme')).id
  const given = { businessId, bank: Bank.BANK_9PSB }
  accountNumber = (await openAccountOver(grpcTransport(service.grpcUrl), given)).accountNumber
})

let receiver: Receiver
beforeEach(async () => {
  receiver = await startReceiver()
  return receiver.close
})

const run = (...args: string[]) => runHere(['webhook', ...args], callerEnv(service))

async function json(...args: string[]) {
  const { code, stdout, stderr } = await run(...args, '--json')
  expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' })
  return JSON.parse(stdout)
}

async function addEndpoint(url = receiver.url): Promise<string> {
  const added = await json('add', '--business', businessId, '--url', url)
  return added.endpoint.id
}

async function pay() {
  payments += 1
  await service.client(TransactionService).recordPayment({
    bank: Bank.BANK_9PSB,
    accountNumber,
    sessionId: `WEBHOOK-CLI-${payments}`,
    amountMinor: 150_050n,
  })
}

describe('an endpoint', () => {
  test('for a receiver that exists is added with its text, changed, and switched to a new one', async () => {
    const file = join(temporaryFolder(), 'text')
    writeFileSync(file, 'sk_live_of_the_receiver\n')
    const added = await json(
      'add',
      '--business',
      businessId,
      '--url',
      receiver.url,
      '--profile',
      'wiaxy',
      '--text-secret-file',
      file,
      '--legacy-signature',
      'hmac_body',
      '--payer-as-array',
      '--event-name',
      'PAYMENT_NOTIFIFICATION',
    )
    expect(added).toMatchObject({
      endpoint: {
        profile: 'ENDPOINT_PROFILE_WIAXY',
        legacySignature: 'LEGACY_SIGNATURE_HMAC_BODY',
        eventName: 'PAYMENT_NOTIFIFICATION',
        payerAsArray: true,
      },
    })
    expect(added.secret ?? '').toBe('')
    const { id } = added.endpoint
    const flags = ['--remove-legacy-signature', '--payer-as-object', '--event-name', '']
    const { endpoint } = await json('update', id, ...flags)
    for (const field of ['legacySignature', 'eventName', 'payerAsArray']) {
      expect(endpoint[field] || 0).toBeOneOf([0, 'LEGACY_SIGNATURE_UNSPECIFIED'])
    }
    const rotated = await run('rotate', id)
    expect([rotated.code, rotated.stderr]).toEqual([0, expect.stringContaining('webhook switch')])
    expect((await run('switch', id)).code).not.toBe(0)
    const switched = await json('switch', id, '--yes')
    expect(switched.endpoint.secrets).toHaveLength(1)
    await json('remove', id, '--yes')
  })

  test.each([
    [['update', 'ep_1', '--enable', '--disable'], 'cannot be used'],
    [['update', 'ep_1', '--kind', 'A', '--all-kinds'], 'cannot be used'],
    [['update', 'ep_1', '--concurrency', '51'], 'from 1 to 50'],
    [['rotate', 'ep_1', '--overlap', 'soon'], 'Must be like 48h'],
    [['deliveries'], '--endpoint <id>'],
    [['recover', 'ep_1'], '--since'],
    [['listen', '--forward-to', 'ftp://x'], 'Must be a URL'],
  ])('%j is a usage error', async (args, text) => {
    const { code, stderr } = await run(...args)
    expect(code).toBe(2)
    expect(stderr).toContain(text)
  })

  test('is tested, and its response is shown', async () => {
    const id = await addEndpoint()
    const { code, stdout } = await run('test', id)
    expect(code).toBe(0)
    expect(stdout).toMatch(/^Kind +ENDPOINT_TEST$/m)
    expect(stdout).toMatch(/^Latest outcome +acknowledged \(200\)$/m)
    receiver.answer({ status: 500, body: 'broken' })
    const failed = await run('test', id)
    expect(failed.code).toBe(1)
    expect(failed.stderr).toBe('error: not acknowledged: responded with 500\n')
    await run('remove', id, '--yes')
  })
})

describe('listening', () => {
  function listen(...args: string[]): Running {
    const env = callerEnv(service)
    return startInflow(['webhook', 'listen', '--business', businessId, ...args], { env })
  }
  const ready = (listener: Running) =>
    waitUntil(async () => /signing secret: (\S+)/.exec(listener.stderr())?.[1])
  const endpoints = async () => {
    const { endpoints: found } = await service.client(WebhookService).listEndpoints({ businessId })
    return found
  }

  test('prints and forwards each event, and removes its endpoint at the end', async () => {
    let received = 0
    receiver.answer(() => ({ status: received++ === 0 ? 202 : 418 }))
    const listener = listen('--json', '--forward-to', receiver.url)
    const secret = await ready(listener)
    expect((await endpoints())[0]?.description).toMatch(/^inflow webhook listen, .+ pid \d+$/)
    await pay()
    const line = JSON.parse((await listener.nextLine())!)
    expect(line).toMatchObject({ verified: true, forwarded: { status: 202, error: '' } })
    expect(JSON.parse(line.body).data.amount).toBe('1500.50')
    const { rawBody, headers } = await receiver.next()
    expect(verifyWebhook(rawBody, headers, secret).ok).toBe(true)
    expect(headers['webhook-id']).toBe(line.webhookId)

    // The listener returns the response of the target: the attempt log shows its status.
    await pay()
    await listener.nextLine()
    const [endpoint] = await endpoints()
    await waitUntil(async () => {
      const endpointId = endpoint!.id
      const { deliveries } = await service.client(WebhookService).listDeliveries({ endpointId })
      return deliveries[0]?.latestAttempt?.statusCode === 418
    })
    listener.child.kill('SIGINT')
    expect(await listener.exit()).toBe(0)
    expect(listener.stderr()).toContain(`Removed ${endpoint!.id}.`)
    expect(await endpoints()).toEqual([])
  })

  test('prints plain text by default, and rejects requests without a valid signature', async () => {
    const listener = listen()
    await ready(listener)
    const [endpoint] = await endpoints()
    const forged = await fetch(endpoint!.url, {
      method: 'POST',
      headers: {
        'webhook-id': 'evt_forged',
        'webhook-timestamp': String(Math.floor(Date.now() / 1_000)),
        'webhook-signature': 'v1,AAAA',
      },
      body: '{}',
    })
    expect(forged.status).toBe(401)
    expect(await listener.nextLine()).toMatch(/evt_forged {2}NOT VERIFIED: no_matching_signature$/)
    await listener.nextLine()
    await listener.nextLine()
    await pay()
    expect(await listener.nextLine()).toMatch(
      /PAYMENT_NOTIFICATION {2}#\d+ {2}evt_\S+ {2}signature verified$/,
    )
    listener.child.kill('SIGTERM')
    expect(await listener.exit()).toBe(0)
    expect(await endpoints()).toEqual([])
  })

  test('removes the endpoint that a killed listener left behind', async () => {
    const killed = listen()
    await ready(killed)
    const [left] = await endpoints()
    killed.child.kill('SIGKILL')
    await killed.exit()
    const next = listen()
    await ready(next)
    expect(next.stderr()).toContain(`Removed ${left!.id}, which an earlier listener left behind.`)
    expect(await endpoints()).toHaveLength(1)
    next.child.kill('SIGINT')
    await next.exit()
    expect(await endpoints()).toEqual([])
  })
})

test('headers and a password come from files, and are not shown', async () => {
  const folder = temporaryFolder()
  const [headers, password] = [join(folder, 'headers'), join(folder, 'password')]
  writeFileSync(headers, 'x-gateway-key: s3cret: 1\n\nx-tenant: shop\n')
  writeFileSync(password, 'hunter2\n')
  const id = await addEndpoint()
  const { stdout } = await run(
    'update',
    id,
    '--headers-file',
    headers,
    '--basic-username',
    'inflow',
    '--basic-password-file',
    password,
  )
  expect(stdout).toMatch(/Headers +x-gateway-key, x-tenant\n/)
  expect(stdout).toMatch(/Authentication +basic, as inflow/)
  expect(stdout).not.toMatch(/s3cret|hunter2/)
  await run('test', id)
  expect((await receiver.next()).headers).toMatchObject({
    'x-gateway-key': 's3cret: 1',
    'x-tenant': 'shop',
    authorization: `Basic ${Buffer.from('inflow:hunter2').toString('base64')}`,
  })
  const removed = await json('update', id, '--remove-headers', '--remove-authentication')
  expect(removed.endpoint.options).toEqual({ headerNames: [], rateLimit: 0, ordered: false })
  writeFileSync(headers, 'x-a: 1\nnonsense s3cret\n')
  const wrong = await run('update', id, '--headers-file', headers)
  expect(wrong).toMatchObject({ code: 2, stdout: '' })
  expect(wrong.stderr).toContain('line 2')
  expect(wrong.stderr).not.toContain('s3cret')
})
