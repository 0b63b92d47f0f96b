import { Code, ConnectError } from '@connectrpc/connect'
import { createGrpcWebTransport } from '@connectrpc/connect-node'
import { describe, expect, test } from 'vitest'
import { ErrorInfoSchema } from '../../../gen/google/rpc/error_details_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { EventService } from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { ADMIN_TOKEN, useSharedService } from '../../support/service.ts'
import { send, until } from '../rest/rest.ts'

const service = useSharedService()

const GET_BUSINESS = '/inflow.business.v1.BusinessService/GetBusiness'
const headers = (contentType: string, more: Record<string, string> = {}) => ({
  authorization: `Bearer ${ADMIN_TOKEN}`,
  'content-type': contentType,
  ...more,
})

/** A field of three bytes that ends after one. */
const CUT = Buffer.from([0x0a, 0x03, 0x61])

test('an error that quotes half of a surrogate pair gets an answer in gRPC-Web', async () => {
  const { key } = await service.business()
  // JSON can have it; a header cannot.
  const json = Buffer.from('{"split":{"\\ud800":1}}')
  const answer = await send(service.httpUrl, {
    path: '/inflow.thirdparty.v2.ThirdPartyService/GenerateVirtualAccount',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/grpc-web+json' },
    body: Buffer.concat([Buffer.from([0, 0, 0, 0, json.length]), json]),
  })
  expect(answer.text).toContain('grpc-status: 3')
  expect(answer.text).toContain(encodeURIComponent('split.\ufffd'))
})

test('bytes that do not parse are the caller’s fault, in every protocol of Connect', async () => {
  const unary = await send(service.httpUrl, {
    path: GET_BUSINESS,
    headers: headers('application/proto'),
    body: CUT,
  })
  expect(unary.status).toBe(400)
  expect(JSON.parse(unary.text)).toMatchObject({
    code: 'invalid_argument',
    message: 'The request cannot be read as an inflow.business.v1.GetBusinessRequest',
    details: [{ type: 'google.rpc.ErrorInfo', debug: { reason: 'malformed_request' } }],
  })

  const json = await send(service.httpUrl, {
    path: GET_BUSINESS,
    headers: headers('application/json'),
    body: '{"businessId":',
  })
  expect([json.status, JSON.parse(json.text).code]).toEqual([400, 'invalid_argument'])

  for (const [body, place] of [
    ['{\n"businessId": 1 2}', ': see line 2, column 17'],
    ['{"businessId": 1}', ': see the field business_id'],
    ['{"businessId": nope}', ''],
  ] as const) {
    const { text } = await send(service.httpUrl, {
      path: GET_BUSINESS,
      headers: headers('application/json'),
      body,
    })
    const message = `The request cannot be read as an inflow.business.v1.GetBusinessRequest${place}`
    expect([body, JSON.parse(text).message]).toEqual([body, message])
  }

  const web = await send(service.httpUrl, {
    path: GET_BUSINESS,
    headers: headers('application/grpc-web+proto'),
    body: Buffer.concat([Buffer.from([0, 0, 0, 0, 3]), CUT]),
  })
  expect(web.text).toMatch(/grpc-status: 3\r\n/)

  const stream = await send(service.httpUrl, {
    path: '/inflow.event.v1.EventService/Subscribe',
    headers: headers('application/connect+proto'),
    body: Buffer.concat([Buffer.from([0, 0, 0, 0, 3]), CUT]),
  })
  expect(stream.text).toContain('"code":"invalid_argument"')

  const compressed = await send(service.httpUrl, {
    path: GET_BUSINESS,
    headers: headers('application/grpc-web+proto'),
    body: Buffer.concat([Buffer.from([1, 0, 0, 0, 3]), CUT]),
  })
  expect(compressed.text).toMatch(/grpc-status: 3\r\n/)
})

test('internal errors stay internal errors', async () => {
  const transport = createGrpcWebTransport({ baseUrl: service.httpUrl, httpVersion: '1.1' })
  const call = transport.unary(
    BusinessService.method.getBusiness,
    undefined,
    undefined,
    { authorization: `Bearer ${ADMIN_TOKEN}` },
    { businessId: 'biz_nobody' },
  )
  const error = await call.catch((caught: unknown) => ConnectError.from(caught))
  expect(error).toMatchObject({ code: Code.NotFound })
  const [info] = (error as ConnectError).findDetails(ErrorInfoSchema)
  expect(info?.reason).toBe('not_found')
})

test('an invalid Host header gets the error envelope', async () => {
  for (const host of ['"; drop table account;', 'a b', '[::', 'x:99999']) {
    const answer = await send(service.httpUrl, {
      path: GET_BUSINESS,
      headers: headers('application/json', { host }),
      body: '{}',
    })
    expect([host, answer.status]).toEqual([host, 400])
    expect(JSON.parse(answer.text)).toMatchObject({
      code: 'malformed_request',
      request_id: answer.headers['x-request-id'],
    })
  }
})

test('an excessive time-out is refused without a warning of Node', async () => {
  const warnings: Error[] = []
  const hear = (warning: Error) => void warnings.push(warning)
  process.on('warning', hear)
  const body = '{"businessId":"biz_nobody"}'
  const json = await send(service.httpUrl, {
    path: GET_BUSINESS,
    headers: headers('application/json', { 'connect-timeout-ms': '9999999999' }),
    body,
  })
  expect([json.status, JSON.parse(json.text).code]).toEqual([400, 'invalid_argument'])

  for (const [body, place] of [
    ['{\n"businessId": 1 2}', ': see line 2, column 17'],
    ['{"businessId": 1}', ': see the field business_id'],
    ['{"businessId": nope}', ''],
  ] as const) {
    const { text } = await send(service.httpUrl, {
      path: GET_BUSINESS,
      headers: headers('application/json'),
      body,
    })
    const message = `The request cannot be read as an inflow.business.v1.GetBusinessRequest${place}`
    expect([body, JSON.parse(text).message]).toEqual([body, message])
  }
  const web = await send(service.httpUrl, {
    path: GET_BUSINESS,
    headers: headers('application/grpc-web+json', { 'grpc-timeout': '99999999H' }),
    body: Buffer.concat([Buffer.from([0, 0, 0, 0, body.length]), Buffer.from(body)]),
  })
  expect(web.text).toMatch(/grpc-status: 3\r\n/)
  const usual = await send(service.httpUrl, {
    path: GET_BUSINESS,
    headers: headers('application/json', { 'connect-timeout-ms': '5000' }),
    body,
  })
  expect(usual.status).toBe(404)
  process.off('warning', hear)
  expect(warnings).toEqual([])
})

test('an invalid time is named, in a message, in a oneof and at any depth', async () => {
  const { id: businessId } = await service.business()
  const webhooks = service.client(WebhookService)
  const { endpoint } = await webhooks.createEndpoint({ businessId, url: 'http://127.0.0.1:9/' })
  const times = [
    { seconds: 253_402_300_800n },
    { seconds: -62_135_596_801n },
    { seconds: 2n ** 63n - 1n },
    { seconds: 1n, nanos: -1 },
    { seconds: 1n, nanos: 1_000_000_000 },
  ]
  for (const time of times) {
    const refusal = { code: Code.InvalidArgument }
    const recover = webhooks.recover({ endpointId: endpoint!.id, since: time })
    await expect(recover).rejects.toMatchObject(refusal)
    await expect(
      service.client(BusinessService).issueKey({ businessId, expiresAt: time }),
    ).rejects.toMatchObject(refusal)
    const start = { case: 'since' as const, value: time }
    const stream = service.client(EventService).subscribe({ start })
    await expect(stream[Symbol.asyncIterator]().next()).rejects.toMatchObject(refusal)
  }
  const edges = [253_402_300_799n, -62_135_596_800n]
  for (const seconds of edges) {
    await webhooks.recover({ endpointId: endpoint!.id, since: { seconds } })
  }
})

describe('errors have the headers that HTTP asks for', () => {
  test('401 has WWW-Authenticate', async () => {
    for (const authorization of [undefined, 'Bearer nothing']) {
      const answer = await send(service.httpUrl, {
        path: GET_BUSINESS,
        headers: { 'content-type': 'application/json', ...(authorization && { authorization }) },
        body: '{}',
      })
      expect(answer).toMatchObject({ status: 401, headers: { 'www-authenticate': 'Bearer' } })
    }
  })

  test('429 has Retry-After', async () => {
    const { id, key } = await service.business()
    const limit = { rateLimitPerSecond: 1, rateLimitBurst: 1 }
    await service.client(BusinessService).updateBusiness({ businessId: id, ...limit })
    const call = () =>
      send(service.httpUrl, {
        path: '/inflow.thirdparty.v2.ThirdPartyService/ListEvents',
        headers: { ...headers('application/json'), authorization: `Bearer ${key}` },
        body: '{}',
      })
    const answer = await until(call, ({ status }) => status === 429)
    expect(answer.headers['retry-after']).toMatch(/^[1-9]\d*$/)
    expect(JSON.parse(answer.text)).toMatchObject({ code: 'resource_exhausted' })
  })

  test.each([
    ['PUT', GET_BUSINESS, 'POST, GET'],
    ['GET', '/inflow.business.v1.BusinessService/CreateBusiness', 'POST'],
    ['DELETE', '/inflow.event.v1.EventService/Subscribe', 'POST'],
    ['OPTIONS', '/inflow.thirdparty.v2.ThirdPartyService/ListEvents', 'POST'],
  ])('405 to %s %s has Allow, and the error envelope', async (method, path, allow) => {
    const answer = await send(service.httpUrl, { method, path, headers: { authorization: 'x' } })
    expect(answer).toMatchObject({ status: 405, headers: { allow } })
    expect(JSON.parse(answer.text)).toMatchObject({
      code: 'method_not_allowed',
      request_id: answer.headers['x-request-id'],
    })
  })

  test('415 has the error envelope', async () => {
    const answer = await send(service.httpUrl, {
      path: GET_BUSINESS,
      headers: headers('text/plain'),
      body: 'x',
    })
    expect([answer.status, JSON.parse(answer.text).code]).toEqual([415, 'unsupported_media_type'])
  })
})
