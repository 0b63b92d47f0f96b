import { describe, expect, test } from 'vitest'
import { useSharedService } from '../../support/service.ts'
import { asOperator, GET_BUSINESS, send } from '../rest/rest.ts'

const service = useSharedService()

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

const inJson = (body: string, more: Record<string, string> = {}, path = GET_BUSINESS) =>
  send(service.httpUrl, { path, headers: asOperator('application/json', more), body })

test.each([
  ['{\n"businessId": 1 2}', ': see line 2, column 17'],
  ['{"businessId": 1}', ': see the field business_id'],
])('JSON that does not parse is refused with the place: %j', async (body, place) => {
  const { status, text } = await inJson(body)
  const message = `The request cannot be read as an inflow.business.v1.GetBusinessRequest${place}`
  expect([status, JSON.parse(text)]).toMatchObject([400, { code: 'invalid_argument', message }])
})

test('a message that is not compressed as its frame states is the caller’s fault', async () => {
  const { text } = await send(service.httpUrl, {
    path: GET_BUSINESS,
    headers: asOperator('application/grpc-web+proto'),
    body: Buffer.from([1, 0, 0, 0, 3, 0x0a, 0x03, 0x61]),
  })
  expect(text).toMatch(/grpc-status: 3\r\n/)
})

test('an invalid Host header gets the error envelope', async () => {
  for (const host of ['"; drop table account;', 'x:99999']) {
    const answer = await inJson('{}', { host })
    expect([host, answer.status]).toEqual([host, 400])
    expect(JSON.parse(answer.text)).toMatchObject({
      code: 'malformed_request',
      request_id: answer.headers['x-request-id'],
    })
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

  test.each([
    ['PUT', GET_BUSINESS, 'POST, GET'],
    ['DELETE', '/inflow.event.v1.EventService/Subscribe', 'POST'],
  ])('405 to %s %s has Allow, and the error envelope', async (method, path, allow) => {
    const answer = await send(service.httpUrl, { method, path, headers: { authorization: 'x' } })
    expect(answer).toMatchObject({ status: 405, headers: { allow } })
    expect(JSON.parse(answer.text)).toMatchObject({
      code: 'method_not_allowed',
      request_id: answer.headers['x-request-id'],
    })
  })

  test('415 has the error envelope', async () => {
    const answer = await inJson('x', { 'content-type': 'text/plain' })
    expect([answer.status, JSON.parse(answer.text).code]).toEqual([415, 'unsupported_media_type'])
  })
})
