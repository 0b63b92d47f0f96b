import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { readConfig } from '../../src/config/config.ts'
import { Fault, REASONS, type Reason } from '../../src/core/errors.ts'
import { restPath } from '../../src/protobuf/contract-services.ts'
import { toErrorResponse } from '../../src/server/http/responses.ts'
import { ERRORS, OF_LIVE_BANKS } from '../protocols/matrix/error-rows.ts'
import { allMethods, nameOf, sendRest } from '../protocols/matrix/protocols.ts'
import { HAPPY } from '../protocols/matrix/rows.ts'
import { authorizationOf, type Scene, setScene } from '../protocols/matrix/scene.ts'
import { asJson, creation, exchange, GENERATE, send } from '../protocols/rest/rest.ts'
import { fakeConnectors } from '../support/fake-bank.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { byHand, startProxy, type TcpProxy } from '../support/proxy.ts'
import { useSharedService } from '../support/service.ts'
import { approveRecipient } from '../thirdparty/scene.ts'
import { document, faultsOfAnswer, faultsOfResponse, type HttpAnswer } from './document.ts'

const service = useSharedService()
const methods = (await allMethods()).filter((method) => restPath(method) !== undefined)

let scene: Scene
let live: Instance
let wire: TcpProxy
let away: Instance

beforeAll(async () => {
  scene = await setScene(service)
  const BANKS = '9PSB=live,SAFEHAVEN=live,PROVIDUS=live,PALMPAY=live'
  const { banks, liveBanks } = readConfig({ BANKS }, fakeConnectors('http://127.0.0.1:9'))
  live = await startInstance(service.url, { banks, liveBanks })
  wire = await startProxy(service.url, byHand)
  away = await startInstance(wire.through)
})

afterAll(async () => {
  await live?.close()
  await away?.close()
  await wire?.block()
  await scene?.close()
})

/** Asserts that a response is as the document states it. */
function judge(what: string, path: string, answer: HttpAnswer, status: number): void {
  expect([what, answer.status, faultsOfAnswer(path, answer)], answer.text).toEqual([
    what,
    status,
    [],
  ])
}

describe('the response of every path is as the document states it', () => {
  test.each(methods.map((method) => [nameOf(method), method] as const))(
    '%s',
    async (name, method) => {
      const request = await HAPPY[name]!(scene, `openapi-${method.name}`)
      const answer = await sendRest(service.httpUrl, method, request, authorizationOf(scene, name))
      judge(name, `${restPath(method)}/`, answer, 200)
    },
  )
})

test('so are accounts and payments with everything that they may have', async () => {
  const { businessId, otherBusinessId, scopedKey: key } = scene
  await approveRecipient(service, businessId, otherBusinessId)
  const call = async (path: string, body: object) => {
    const full = `/v2/thirdparty/${path}/`
    const answer = await send(service.httpUrl, {
      path: full,
      headers: asJson(key),
      body: JSON.stringify(body),
    })
    judge(path, full, answer, 200)
    return { ...answer, data: JSON.parse(answer.text).data }
  }
  const request = creation({
    reference: 'everything',
    amount: 2_000,
    amountRule: 'AT_LEAST',
    expiresIn: 3_600,
    singleUse: true,
    allowedPayers: [{ name: 'Ngozi Eze' }],
    metadata: { order: '1042' },
    split: { recipients: [{ businessId: otherBusinessId, percentage: 12.5 }], feeBearer: 'SHARED' },
  })
  const { data } = await call('generateVirtualAccount', request)
  const repeated = await call('generateVirtualAccount', request)
  expect(repeated.headers['idempotent-replayed']).toBe('true')
  await call('getVirtualAccount', { reference: 'everything' })
  const { accounts } = (await call('listVirtualAccounts', {})).data
  expect(accounts[0]).toMatchObject({ terms: {}, metadata: {}, split: {}, status: 'ACTIVE' })
  const { sessionId } = await pay(data.account[0].account_number)
  const found = (await call('getTransaction', { session_id: sessionId })).data
  expect(found).toMatchObject({ variance: 'PAYER_NOT_ALLOWED', hold_state: 'HELD', metadata: {} })
  await service.client(SettlementService).settle({ businessId: scene.businessId, force: true })
  const { transactions } = (await call('listTransactions', {})).data
  expect(transactions.flatMap((each: object) => Object.keys(each))).toContain('settled_at')
  await call('listTransactions', { recorded_from: '2020-01-01 00:00:00' })
  await call('listEvents', { after: 0 })
  const { settlements } = (await call('listSettlements', {})).data
  expect(settlements).toHaveLength(2)
  const { entries } = (await call('getStatement', {})).data
  expect(entries.length).toBeGreaterThan(1)
})

function pay(accountNumber: string) {
  const transfer = { accountNumber, amountMinor: 150_050n, sessionId: 'openapi-payment' }
  return service.client(SandboxService).simulateTransfer(transfer)
}

describe('every error is as the document states it', () => {
  const seen = new Set<string>()
  const rows = Object.keys(ERRORS).filter((row) => row.startsWith('ThirdPartyService.'))

  test.each(rows)('%s', async (row) => {
    const [name = '', reason = ''] = row.split(' ')
    const method = methods.find((each) => nameOf(each) === name)!
    const { httpUrl } = OF_LIVE_BANKS.has(row) ? live : service
    const request = await ERRORS[row]!(scene, `openapi ${row}`)
    const answer = await sendRest(httpUrl, method, request, authorizationOf(scene, row))
    expect(JSON.parse(answer.text)).toMatchObject({
      code: reason,
      doc_url: `/docs/errors#${reason}`,
    })
    judge(row, `${restPath(method)}/`, answer, REASONS[reason as Reason][1])
    seen.add(reason)
  })

  test('and so is every error that any path returns', async () => {
    const businesses = service.client(BusinessService)
    const { businessId, key } = scene
    const bound = { businessId, allowedCidrs: ['203.0.113.0/24'] }
    const elsewhere = (await businesses.issueKey(bound)).secretKey
    const slow = await service.business()
    await businesses.updateBusiness({
      businessId: slow.id,
      rateLimitPerSecond: 1,
      rateLimitBurst: 1,
    })
    const ask = (wire: Parameters<typeof send>[1], at: { httpUrl: string } = service) =>
      send(at.httpUrl, { path: GENERATE, headers: asJson(key), ...wire })
    const limited = async () => {
      const asked = { headers: asJson(slow.key), body: '{}' }
      let answer = await ask(asked)
      for (let i = 0; i < 100 && answer.status !== 429; i++) answer = await ask(asked)
      return answer
    }
    const closing = '/v2/thirdparty/closeVirtualAccount/'
    const body = '{"reference":"order-1"}'
    const asText = { ...asJson(key), 'content-type': 'text/plain' }
    await wire.block()
    const answers: [Reason, string, HttpAnswer][] = [
      ['malformed_json', GENERATE, await ask({ body: '{"a":' })],
      ['unauthorized', GENERATE, await ask({ headers: asJson(), body })],
      ['permission_denied', closing, await ask({ path: closing, body })],
      ['address_not_allowed', GENERATE, await ask({ headers: asJson(elsewhere), body })],
      ['payload_too_large', GENERATE, await ask({ body: 'x'.repeat(70_000) })],
      ['unsupported_media_type', GENERATE, await ask({ headers: asText, body })],
      ['rate_limited', GENERATE, await limited()],
      ['unavailable', GENERATE, await ask({ body: JSON.stringify(creation()) }, away)],
      ['malformed_request', GENERATE, await raw('GET / HTTP/1.1\r\nConnection: close\r\n\r\n')],
      [
        'headers_too_large',
        GENERATE,
        await raw(`GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`),
      ],
      // The first takes half a minute and the second a defect: both are responses of the same function.
      ['request_timeout', GENERATE, fault('request_timeout')],
      ['internal', GENERATE, fault('internal')],
    ]
    await wire.unblock()
    for (const [reason, path, answer] of answers) {
      expect(JSON.parse(answer.text)).toMatchObject({ code: reason })
      judge(reason, path, answer, REASONS[reason][1])
      seen.add(reason)
    }
    const documented = [...JSON.stringify(document.paths).matchAll(/"code":"(\w+)"/g)]
    const shared = [...JSON.stringify(document.components.responses).matchAll(/"code":"(\w+)"/g)]
    const codes = [...documented, ...shared].map(([, code]) => code!)
    const apart = ['unknown_path', 'method_not_allowed']
    expect([...seen, ...apart].sort()).toEqual([...new Set(codes)].sort())
  })

  test('also of requests that reach no path', async () => {
    for (const [reason, method, path, name] of [
      ['unknown_path', 'POST', '/v2/thirdparty/nothing/', 'Error404-unknown_path'],
      ['method_not_allowed', 'GET', GENERATE, 'Error405'],
    ] as const) {
      const answer = await send(service.httpUrl, { method, path })
      const place = ['components', 'responses', name]
      expect([reason, answer.status, faultsOfResponse(place, answer)]).toEqual([
        reason,
        REASONS[reason][1],
        [],
      ])
    }
  })

  const raw = async (text: string): Promise<HttpAnswer> => {
    const [head = '', body = ''] = (await exchange(service.httpUrl, text)).split('\r\n\r\n')
    const [line = '', ...lines] = head.split('\r\n')
    const headers = lines.map((each) => each.toLowerCase().split(': ', 2))
    return { status: Number(line.split(' ')[1]), headers: Object.fromEntries(headers), text: body }
  }

  const fault = (reason: Reason): HttpAnswer => {
    const { status, headers, body } = toErrorResponse(new Fault(reason, 'A text'), 'req_1')
    return { status, headers: { ...headers, 'x-request-id': 'req_1' }, text: body }
  }
})
