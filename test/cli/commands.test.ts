import { expect, test, vi } from 'vitest'
import { type CannedService, startCannedService } from './canned-service.ts'
import { inflow } from './run-inflow.ts'

vi.setConfig({ testTimeout: 30_000 })

const ACCOUNT = [
  ...['account', 'create', '--bank', '9psb', '--first-name', 'Ada', '--last-name', 'Obi'],
  ...['--email', 'ada@example.com', '--phone', '08012345678'],
]

async function run(service: CannedService, ...args: string[]) {
  const env = { INFLOW_GRPC_URL: service.url, INFLOW_TOKEN: service.token }
  const { code, stdout, stderr } = await inflow(args, { env })
  expect(stdout).not.toContain('\u001b')
  return { code, stdout, stderr }
}

/** What the service was last asked. */
function lastCall(service: CannedService) {
  return service.calls.at(-1) as [string, Record<string, unknown>]
}

test('a list is an aligned table, with the way to its next page on standard error', async () => {
  const service = await startCannedService()
  const { code, stdout, stderr } = await run(service, 'business', 'list', '--limit', '7')
  expect(code).toBe(0)
  expect(stdout).toBe(
    'ID        NAME         ALIAS  CREATED AT\n' +
      'biz_demo  Acme\u0301 Stores  Acme   2026-11-20 10:00:00\n',
  )
  expect(stderr).toBe('More follow: --page-token page-2\n')
  expect(lastCall(service)[1]).toMatchObject({ pageSize: 7, pageToken: '' })
})

test('amounts stand right-aligned with two decimals, and control characters are shown', async () => {
  const service = await startCannedService()
  const { stdout } = await run(service, 'transaction', 'list', '--business', 'biz_x')
  const [head, first, second] = stdout.split('\n')
  expect(head).toMatch(/^PAID AT +SESSION +AMOUNT +STATUS +SETTLED/)
  expect(first).toMatch(/^2026-11-20 10:00:00 {2}SESSION-1 {2}1500\.50 {2}SUCCESS {2}no /)
  expect(second).toMatch(/^2026-11-20 10:00:00 {2}S2 {12}0\.07 {2}SUCCESS {2}yes /)
  expect(first).toMatch(/Chidi\u{fffd}\[2J$/u)
})

test('an empty list prints nothing but a note', async () => {
  const service = await startCannedService()
  const args = ['transaction', 'list', '--business', 'b', '--reference', 'none']
  expect(await run(service, ...args)).toEqual({ code: 0, stdout: '', stderr: 'None found.\n' })
  const { stdout } = await run(service, ...args, '--json')
  expect(JSON.parse(stdout)).toEqual({ transactions: [], nextPageToken: '' })
})

test('filters reach the service', async () => {
  const service = await startCannedService()
  await run(
    service,
    ...['transaction', 'list', '--business', 'b', '--reference', 'R-1', '--status', 'failed'],
    ...['--from', '2026-11-01 00:00:00', '--to', '2026-12-01T00:00:00+01:00'],
    ...['--limit', '5', '--page-token', 'p'],
  )
  expect(lastCall(service)).toMatchObject([
    'ListTransactions',
    {
      businessId: 'b',
      reference: 'R-1',
      status: 3,
      from: { seconds: 1793491200n },
      to: { seconds: 1796079600n },
      pageSize: 5,
      pageToken: 'p',
    },
  ])
})

test('--json is one document with every field', async () => {
  const service = await startCannedService()
  const args = ['transaction', 'get', 'SESSION-1', '--business', 'b', '--json']
  const { code, stdout, stderr } = await run(service, ...args)
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(JSON.parse(stdout)).toMatchObject({
    transaction: {
      sessionId: 'SESSION-1',
      amountMinor: '150050',
      status: 'TRANSACTION_STATUS_SUCCESS',
      settled: false,
      paidAt: '2026-11-20T10:00:00Z',
    },
  })
})

test('times are those of DISPLAY_TIME_ZONE', async () => {
  const service = await startCannedService()
  const { url: INFLOW_GRPC_URL, token: INFLOW_TOKEN } = service
  const env = { INFLOW_GRPC_URL, INFLOW_TOKEN, DISPLAY_TIME_ZONE: 'Africa/Lagos' }
  const { stdout } = await inflow(['key', 'list', '--business', 'b'], { env })
  expect(stdout).toContain('2026-11-20 11:00:00')
})

test('secrets are printed with a note that they are shown once', async () => {
  const service = await startCannedService()
  const created = await run(service, 'business', 'create', '--name', 'Acme')
  expect(created.stdout).toMatch(/^Id +biz_demo$/m)
  expect(created.stdout).toMatch(/^Secret key +sk_live_secret$/m)
  const issued = await run(service, 'key', 'issue', '--business', 'b')
  expect(issued.stdout).toMatch(/^Secret key +sk_live_secret$/m)
  const hook = ['--url', 'https://a.example/h', '--kind', 'A', 'B', '--description', 'shop']
  const added = await run(service, 'webhook', 'add', '--business', 'b', ...hook)
  expect(added.stdout).toMatch(/^Secret +whsec_1$/m)
  expect(lastCall(service)[1]).toMatchObject({
    businessId: 'b',
    url: 'https://a.example/h',
    kinds: ['A', 'B'],
    description: 'shop',
  })
  for (const { code, stderr } of [created, issued, added]) {
    expect(code).toBe(0)
    expect(stderr).toMatch(/is shown this once/)
  }
})

test('keys and endpoints are revoked, removed and listed', async () => {
  const service = await startCannedService()
  const revoked = await run(service, 'key', 'revoke', 'key_1')
  expect(revoked.stdout).toMatch(/^Revoked at +2026-11-20 10:00:00$/m)
  expect(lastCall(service)).toMatchObject(['RevokeKey', { keyId: 'key_1' }])
  const listed = await run(service, 'webhook', 'list', '--business', 'b')
  expect(listed.stdout).toMatch(/^ep_1 +https:\/\/shop\.example\.com\/hooks +PAYMENT_NOTIFICATION/m)
  const removed = await run(service, 'webhook', 'remove', 'ep_1')
  expect(removed).toEqual({ code: 0, stdout: '', stderr: 'Removed ep_1.\n' })
  expect(lastCall(service)).toMatchObject(['DeleteEndpoint', { endpointId: 'ep_1' }])
})

test('an account is opened, shown and listed', async () => {
  const service = await startCannedService()
  const identity = ['--id-type', 'bvn', '--id-number', '12345678901']
  const created = await run(
    service,
    ...[...ACCOUNT, '--reference', 'again', '--business', 'b', ...identity],
  )
  expect(created).toMatchObject({ code: 0, stderr: 'It was open already.\n' })
  expect(created.stdout).toMatch(/^Number +0123456789$/m)
  expect(lastCall(service)[1]).toMatchObject({
    businessId: 'b',
    reference: 'again',
    bank: 1,
    firstName: 'Ada',
    lastName: 'Obi',
    email: 'ada@example.com',
    phone: '08012345678',
    idType: 2,
    idNumber: '12345678901',
  })
  const shown = await run(service, 'account', 'get', 'order-1', '--business', 'b')
  expect(shown.stdout).toMatch(/^Customer +Ada Obi$/m)
  const listed = await run(service, 'account', 'list', '--status', 'ACTIVE')
  expect(listed.stdout).toMatch(/^R-ACCOUNT +order-1 +9PSB +0123456789 +Acme\/Ada Obi +ACTIVE/m)
  expect(lastCall(service)[1]).toMatchObject({ businessId: '', status: 2 })
})

test('a simulated amount is exact to the kobo, however large', async () => {
  const service = await startCannedService()
  const amount = '9007199254740.93'
  const transfer = ['transfer', 'simulate', '--account', '0123456789', '--amount', amount]
  const { stdout } = await run(service, ...transfer, '--session', 'S9', '--payer', 'Chidi')
  expect(stdout).toMatch(/^Outcome +RECORDED$/m)
  expect(stdout).toMatch(/^Amount +9007199254740\.93$/m)
  expect(lastCall(service)[1]).toMatchObject({
    accountNumber: '0123456789',
    amountMinor: 900719925474093n,
    sessionId: 'S9',
    payerName: 'Chidi',
  })
})

test('a transfer that no account takes says so', async () => {
  const service = await startCannedService()
  const args = ['transfer', 'simulate', '--account', '0000000000', '--amount', '1']
  const { code, stdout, stderr } = await run(service, ...args)
  expect(code).toBe(0)
  expect(stdout).toBe('Outcome        UNMATCHED\nSession        SESSION-0\n')
  expect(stderr).toMatch(/kept for an operator/)
})
