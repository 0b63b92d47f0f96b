import { connect } from 'node:net'
import { Code } from '@connectrpc/connect'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { EventService, type SubscribeResponse } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { createAuthenticateToken } from '../../src/auth/authenticate-token.ts'
import { creation, until } from '../protocols/rest/rest.ts'
import { publishEvents } from '../support/events.ts'
import { grpcClient } from '../support/grpc-client.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { ADMIN_TOKEN, issueToken, useSharedService } from '../support/service.ts'

const service = useSharedService()
const admin = () => service.client(AdminService)

const issue = () => issueToken(service, ['events:subscribe'], [], 'ledger')

test('ADMIN_TOKEN cannot be revoked', async () => {
  await expect(admin().revokeToken({ tokenId: 'bootstrap' })).rejects.toMatchObject({
    code: Code.NotFound,
  })
})

test('no bootstrap token is accepted if none is set', async () => {
  const authenticate = (bootstrapToken: string | undefined) =>
    createAuthenticateToken(createTestRuntime(service.database), bootstrapToken)
  expect(await authenticate(ADMIN_TOKEN)(ADMIN_TOKEN)).toMatchObject({ tokenId: 'bootstrap' })
  expect(await authenticate(undefined)(ADMIN_TOKEN)).toBeUndefined()
  expect(await authenticate(undefined)('undefined')).toBeUndefined()
})

/** Reads past checkpoints, of which one comes every 15 s. */
async function nextEvent(stream: AsyncIterator<SubscribeResponse>) {
  let read = await stream.next()
  while (read.value?.item.case === 'checkpoint') read = await stream.next()
  return read
}

/** Reads until the stream ends, also past events that other tests cause. */
async function untilEnd(stream: AsyncIterator<SubscribeResponse>) {
  while (!(await stream.next()).done);
}

describe('the streams of a revoked token', () => {
  let instance: Instance

  beforeAll(async () => {
    instance = await startInstance(service.url)
    return () => instance.close()
  })

  test('end at every instance, and no others do', async () => {
    const revoked = await issue()
    const kept = await issue()
    const open = (token: string, at: { grpcUrl: string }) =>
      grpcClient(EventService, at.grpcUrl, token).subscribe({})[Symbol.asyncIterator]()
    const ending = [open(revoked.secret, service), open(revoked.secret, instance)]
    const unaffected = open(kept.secret, instance)
    // The first item is a checkpoint: the subscription is established.
    for (const stream of [...ending, unaffected]) expect((await stream.next()).done).toBe(false)
    await admin().revokeToken({ tokenId: revoked.id })
    for (const stream of ending) {
      await expect(untilEnd(stream)).rejects.toMatchObject({ code: Code.Unauthenticated })
    }
    const { key } = await service.business()
    await service.post('generateVirtualAccount/', key, creation())
    expect((await nextEvent(unaffected)).value.item.case).toBe('event')
    await unaffected.return?.()
  })

  test('end although their subscriber does not read', async () => {
    const { hostname, port } = new URL(instance.httpUrl)
    const socket = connect(Number(port), hostname)
    onTestFinished(() => void socket.destroy())
    // Some 16 MB: more than the buffers between the two hold.
    await publishEvents(service.database.durablePool, 4_000, { businessId: 'x'.repeat(2_000) })
    const { id, secret } = await issue()
    socket.pause().write(subscribeOverConnect(secret))
    await until(
      async () => socket.readableLength,
      (length) => length >= socket.readableHighWaterMark,
    )
    const open = async () => {
      const metrics = await instance.metrics.metrics()
      return Number(/^inflow_connections\{server="http"\} (\d+)$/m.exec(metrics)?.[1])
    }
    expect(await open()).toBe(1)
    await admin().revokeToken({ tokenId: id })
    await until(open, (count) => count === 0)
  })
})

/** A request of the Connect protocol for the whole log, in JSON. */
function subscribeOverConnect(token: string): Buffer {
  const message = Buffer.from('{"beginning":true}')
  const envelope = Buffer.concat([Buffer.of(0, 0, 0, 0, message.length), message])
  const head = [
    'POST /inflow.event.v1.EventService/Subscribe HTTP/1.1',
    'Host: x',
    'Content-Type: application/connect+json',
    'Connect-Protocol-Version: 1',
    `Authorization: Bearer ${token}`,
    `Content-Length: ${envelope.length}`,
  ]
  return Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), envelope])
}
