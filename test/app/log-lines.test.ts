import { afterAll, beforeAll, expect, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { asJson, creation, GENERATE, send } from '../protocols/rest/rest.ts'
import { useDatabase } from '../support/database.ts'
import { grpcClient, grpcTransport } from '../support/grpc-client.ts'
import { NINE_PSB_AWAY } from '../support/live-banks.ts'
import { openBusinessOver } from '../support/opened-account.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { waitFor } from '../support/wait-for.ts'
import { logOf } from '../support/workers.ts'

const PAYMENTS = 60

const db = useDatabase(2)
let service: ServiceProcess

beforeAll(async () => {
  service = await startProcess(
    {
      DATABASE_URL: db.url,
      LOG_LEVEL: 'debug',
      WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8',
      ...NINE_PSB_AWAY,
    },
    true,
  )
})
afterAll(() => service?.kill())

const lines = () => logOf(service) as unknown as Record<string, unknown>[]
const linesOf = (msg: string) => lines().filter((line) => line['msg'] === msg)

test('each line has a level name, an ISO time and a text; the first states what started', async () => {
  const started = await waitFor(() => {
    const [line] = linesOf('started')
    expect(line).toBeDefined()
    return line
  })
  expect(started).toMatchObject({
    level: 'info',
    version: expect.any(String),
    node: process.versions.node,
    postgres: expect.stringMatching(/^\d+\.\d+/),
    schema: expect.stringMatching(/^Migration/),
    database: 'external',
    http_port: Number(new URL(service.httpUrl).port),
    workers: 1,
    live_banks: ['9PSB'],
  })
  for (const line of lines()) {
    expect(line['level']).toMatch(/^(debug|info|warn|error)$/)
    expect(new Date(String(line['time'])).toISOString()).toBe(line['time'])
    expect(line['msg']).toEqual(expect.any(String))
  }
})

test('the id of a request links its call, its call to the bank, and what the caller reads', async () => {
  const { secretKey } = await grpcClient(BusinessService, service.grpcUrl).createBusiness({
    name: 'Acme',
  })
  const { headers, status } = await send(service.httpUrl, {
    path: GENERATE,
    headers: asJson(secretKey),
    body: JSON.stringify(creation({ bank: '9PSB' })),
  })
  expect(status).toBe(503)
  await waitFor(() => {
    const own = lines().filter((line) => line['request_id'] === headers['x-request-id'])
    expect(own.map(({ level, msg }) => [level, msg])).toEqual([
      ['debug', 'bank call'],
      ['warn', 'call could not be served'],
    ])
    expect(own[0]).toMatchObject({ bank: '9PSB', result: 'unreachable' })
    expect(own[1]).toMatchObject({ rpc: expect.stringContaining('GenerateVirtualAccount') })
  })
})

test('a flood of failing webhooks becomes a few lines, whose counts are right', async () => {
  const { businessId, accountNumber } = await openBusinessOver(grpcTransport(service.grpcUrl))
  const url = 'https://127.0.0.1:9/hooks'
  const { endpoint } = await grpcClient(WebhookService, service.grpcUrl).createEndpoint({
    businessId,
    url,
  })
  const payments = Array.from({ length: PAYMENTS }, (_, index) => ({
    bank: Bank.BANK_PROVIDUS,
    accountNumber,
    sessionId: `FLOOD-${index}`,
    amountMinor: 100n,
  }))
  const startedMs = performance.now()
  await grpcClient(TransactionService, service.grpcUrl).recordPayments({ payments })
  await waitFor(async () => {
    const { rows } = await db.database.durablePool.query(
      'select coalesce(sum(attempts), 0)::int as count from webhook_delivery',
    )
    const failed = linesOf('webhook attempt failed')
    const leftOut = linesOf('similar lines left out')
      .filter(({ of }) => of === 'webhook attempt failed')
      .map((line) => {
        expect(line['endpoint']).toBe(endpoint!.id)
        return Number(line['left_out'])
      })
    // How many attempts fall into one window of a second depends on the machine; a window never has more lines.
    const windowsMax = Math.ceil((performance.now() - startedMs) / 1_000) + 1
    expect(failed.length).toBeLessThanOrEqual(windowsMax * 5)
    expect(rows[0].count).toBeGreaterThan(10)
    expect(failed.length + leftOut.reduce((sum, count) => sum + count, 0)).toBe(rows[0].count)
  })
  expect(linesOf('webhook attempt failed')[0]).toMatchObject({
    level: 'info',
    endpoint: endpoint!.id,
    delivery: expect.stringMatching(/^dlv_/),
    attempt: 1,
    error: expect.any(String),
    next_attempt: expect.any(String),
  })
})

test('the last line states why and how fast the service stopped', async () => {
  expect(await service.stop()).toBe(0)
  expect(linesOf('stopping')).toMatchObject([{ level: 'info', reason: 'SIGTERM', delay_ms: 0 }])
  expect(lines().at(-1)).toMatchObject({
    msg: 'stopped',
    reason: 'SIGTERM',
    took_ms: expect.any(Number),
    exit_code: 0,
  })
})
