import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { BANK_CODES, type BankCode } from '../../src/banks/bank.ts'
import { createReportBreakers } from '../../src/banks/breakers.ts'
import { type FakeBanks, startFakeBanks } from '../../src/banks/fake/start-fake-banks.ts'
import type { BreakerState } from '../../src/banks/http/circuit-breaker.ts'
import { createBankMetrics } from '../../src/banks/metrics.ts'
import { serveBanks } from '../../src/banks/serve-banks.ts'
import { readConfig } from '../../src/config/config.ts'
import { checkBankWork } from '../../src/doctor/check-banks.ts'
import { asJson, creation, GENERATE, send, until } from '../protocols/rest/rest.ts'
import { captureLog } from '../support/captured-log.ts'
import { useDatabase } from '../support/database.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { accountOrder } from './fixture.ts'

const db = useDatabase()
let banks: FakeBanks

beforeAll(async () => {
  banks = await startFakeBanks({ port: 0, serviceUrl: 'http://127.0.0.1:1' })
})

afterAll(() => banks?.close())

/** Credentials of the operator that no bank has issued. */
const WRONG = {
  BANK_9PSB_PRIVATE_KEY: 'wrong',
  BANK_SAFEHAVEN_CLIENT_ID: 'wrong',
  BANK_PROVIDUS_CLIENT_SECRET: 'wrong',
  BANK_PALMPAY_APP_ID: 'wrong',
}

/** Starts an instance that keeps its log lines, with a business that opens live accounts. */
async function start(env: Readonly<Record<string, string>> = {}) {
  // A run of reconciliation would ask the banks too, at a time of its own.
  // Readings of the float of a bank that pays would be denied and admitted, too.
  const ofAccounts = Object.entries(banks.environment).filter(
    ([name]) => !name.includes('_TRANSFER_'),
  )
  const settings = { ...Object.fromEntries(ofAccounts), RECONCILE_INTERVAL_MINUTES: '0', ...env }
  const { banks: served, liveBanks, recordRequiresConfirmation, reconcile } = readConfig(settings)
  const { log, lines } = captureLog()
  const overrides = { banks: served, liveBanks, recordRequiresConfirmation, reconcile }
  const instance = await startInstance(db.url, overrides, log)
  let closed: Promise<void> | undefined
  const close = () => {
    closed ??= instance.close()
    return closed
  }
  onTestFinished(close)
  const { business, secretKey } = await instance
    .client(BusinessService)
    .createBusiness({ name: 'Acme', alias: 'Acme' })
  const post = async (path: string, body: object, key = secretKey) => {
    const headers = asJson(key)
    const answer = await send(instance.httpUrl, { path, headers, body: JSON.stringify(body) })
    const retryAfter = answer.headers['retry-after']
    return { ...JSON.parse(answer.text), status: answer.status, retryAfter }
  }
  const open = (bank: BankCode, reference: string) =>
    post(GENERATE, creation({ bank, reference, idType: 'bvn', idNumber: '22222222222' }))
  return { instance, close, lines, post, open, businessId: business!.id }
}

/** What a caller gets whose call a bank refused for the operator's credentials or address. */
const DENIED = {
  status: 503,
  code: 'bank_unavailable',
  message: expect.stringMatching(/^The bank denies this service access, .* operator .* later$/),
  retryAfter: '300',
}

async function deniedBanks({ metrics }: Instance) {
  const { values } = await metrics.getSingleMetric('inflow_bank_access_denied')!.get()
  return values.filter(({ value }) => value === 1).map(({ labels }) => labels['bank'])
}

/** What `inflow doctor` says of banks, if it contains a text. */
const saying = (text: string) => async (): Promise<readonly string[]> => {
  const all = await checkBankWork(db.database.orm, {}, Date.now())
  return all.map(({ level, found }) => `${level}: ${found}`).filter((line) => line.includes(text))
}

const findings = saying('denies this service access')
const breakers = saying('breaker')

test('wrong credentials are the operator’s fault at every bank, and shown for each', async () => {
  const { instance, lines, open, close } = await start(WRONG)
  expect(await deniedBanks(instance)).toEqual([])
  for (const bank of BANK_CODES) {
    for (const _attempt of ['first', 'repeat']) {
      expect(await open(bank, bank), bank).toMatchObject(DENIED)
    }
    expect(banks[bank].accounts.size).toBe(0)
  }
  expect(await deniedBanks(instance)).toEqual([...BANK_CODES])
  const said = await until(findings, (all) => all.length === BANK_CODES.length)
  for (const bank of BANK_CODES) {
    expect(said.filter((line) => line.startsWith(`fail: ${bank} denies `))).toHaveLength(1)
    const logged = lines.filter(({ msg }) => msg === 'bank denies this service access')
    expect(logged.filter((line) => line['bank'] === bank)).toMatchObject([
      { level: 50, cause: expect.any(String) },
    ])
  }
  expect(JSON.stringify([said, lines])).not.toContain('wrong')
  // What the process reported ends with it.
  await close()
  expect(await findings()).toEqual([])
})

/** Makes a bank refuse the next call as from an address that it does not list, or for its signature. */
const DENIALS: Readonly<Record<string, () => void>> = {
  '9PSB issues no token': () => banks['9PSB'].faults.add('authenticate', 'S1'),
  '9PSB refuses new tokens too': () => banks['9PSB'].faults.add('create', 'S1', 2),
  'SAFEHAVEN issues no token': () => banks.SAFEHAVEN.faults.add('token', 'statusCode 401'),
  'SAFEHAVEN refuses new tokens too': () =>
    banks.SAFEHAVEN.faults.add('create', 'statusCode 403', 2),
  'PROVIDUS refuses its signature': () => banks.PROVIDUS.faults.add('create', '05'),
  'PALMPAY refuses its signature': () => banks.PALMPAY.faults.add('create', 'code OPEN_GW_000008'),
  'PALMPAY does not list the address': () =>
    banks.PALMPAY.faults.add('create', 'code OPEN_GW_000012'),
}

test('a bank that grants access again ends the alert and the finding', async () => {
  const { instance, lines, open } = await start()
  for (const [denial, deny] of Object.entries(DENIALS)) {
    const [bank] = denial.split(' ') as [BankCode]
    deny()
    expect(await open(bank, denial), denial).toMatchObject(DENIED)
    expect(await deniedBanks(instance), denial).toEqual([bank])
    expect(await open(bank, denial), denial).toMatchObject({ status: 200 })
    expect(await deniedBanks(instance), denial).toEqual([])
    expect(lines.filter(({ msg }) => msg === 'bank grants this service access again')).toHaveLength(
      1,
    )
    lines.length = 0
    // The next token is fetched anew.
    banks['9PSB'].expireTokens()
    banks.SAFEHAVEN.expireTokens()
  }
  const [deny] = Object.values(DENIALS)
  deny!()
  await open('9PSB', 'last')
  await until(findings, ([line]) => line?.startsWith('fail: 9PSB denies') === true)
  await open('9PSB', 'last')
  await until(findings, (all) => all.length === 0)
})

test('a bank that fails to issue a token is asked again soon', async () => {
  const { instance, open } = await start()
  banks['9PSB'].faults.add('authenticate', '500')
  banks.SAFEHAVEN.faults.add('token', 'page')
  for (const bank of ['9PSB', 'SAFEHAVEN'] as const) {
    expect(await open(bank, bank)).toMatchObject({ code: 'bank_unavailable', retryAfter: '5' })
    expect(await open(bank, bank)).toMatchObject({ status: 200 })
  }
  expect(await deniedBanks(instance)).toEqual([])
})

test('closing, requerying and confirming are the operator’s to restore too', async () => {
  const { instance, open, post, businessId } = await start({ RECORD_REQUIRES_CONFIRMATION: 'on' })
  const { data } = await open('9PSB', 'order-1')
  const { faults } = banks['9PSB']
  const scoped = await instance
    .client(BusinessService)
    .issueKey({ businessId, scopes: ['accounts:write', 'payments:requery'] })
  const call = (path: string) =>
    post(`/v2/thirdparty/${path}/`, { reference: 'order-1' }, scoped.secretKey)

  faults.add('confirm', 'S1', 2)
  expect(await call('requeryTransaction')).toMatchObject(DENIED)
  faults.add('deactivate', 'S1', 2)
  expect(await call('closeVirtualAccount')).toMatchObject(DENIED)
  faults.add('confirm', 'S1', 2)
  const payment = {
    bank: Bank.BANK_9PSB,
    accountNumber: data.account[0].account_number,
    sessionId: '999',
    amountMinor: 100n,
  }
  const { results } = await instance
    .client(TransactionService)
    .recordPayments({ payments: [payment] })
  expect(results).toMatchObject([{ reason: 'bank_unavailable', error: DENIED.message }])
  expect(await deniedBanks(instance)).toEqual(['9PSB'])
})

test('access to a bank’s transfers is denied and granted apart from its accounts', async () => {
  const settings = { ...banks.environment, BANKS: 'PROVIDUS=live' }
  const { liveBanks } = readConfig(settings)
  const runtime = createTestRuntime(db.database)
  const served = serveBanks(runtime, { liveBanks, metrics: createBankMetrics(runtime.metrics) })
  onTestFinished(() => served.close())
  const { transfers, openAccount } = served.live.get('PROVIDUS')!.connector
  const denial = () => served.conditions.get('PROVIDUS')!().denial
  const { signal } = new AbortController()
  banks.PROVIDUS.transfers.faults.add('account', 'denied')
  expect(await transfers!.readFloat!(signal)).toMatchObject({ kind: 'unavailable' })
  expect(denial()).toContain('Authentication failed')
  expect(await openAccount(accountOrder({ bank: 'PROVIDUS' }), signal)).toMatchObject({
    kind: 'opened',
  })
  expect(denial()).not.toBe('')
  expect(await transfers!.readFloat!(signal)).toMatchObject({ kind: 'read' })
  expect(denial()).toBe('')
})

test('doctor counts the open circuit breakers of every process until they close', async () => {
  const states = [new Map<BankCode, BreakerState>(), new Map<BankCode, BreakerState>()]
  const loops = states.map((state, index) =>
    createReportBreakers(createTestRuntime(db.database), {
      processId: `ins_${index}`,
      conditions: new Map([
        ['PALMPAY', () => ({ breaker: state.get('PALMPAY') ?? 'closed', denial: '' })],
      ]),
    }),
  )
  for (const loop of loops) loop.start()
  onTestFinished(async () => void (await Promise.all(loops.map((loop) => loop.stop()))))
  expect(await breakers()).toEqual([])
  states[0]!.set('PALMPAY', 'open')
  states[1]!.set('PALMPAY', 'half-open')
  for (const loop of loops) loop.wake()
  await until(breakers, ([line]) => line?.includes('PALMPAY is open in 2 processes') === true)
  states[0]!.set('PALMPAY', 'closed')
  loops[0]!.wake()
  await until(breakers, ([line]) => line?.includes('PALMPAY is open in 1 processes') === true)
  await loops[1]!.stop()
  expect(await breakers()).toEqual([])
  // A process that died reports no more.
  await db.database.durablePool.query(
    `insert into bank_breaker values ('PALMPAY', 'ins_dead', 'open', '', now(), now() - interval '1 minute')`,
  )
  expect(await breakers()).toEqual([])
})
