import { execFileSync } from 'node:child_process'
import { appendFile, chmod, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { createClient } from '@connectrpc/connect'
import { expect, onTestFinished, test, vi } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import type { Event } from '../../gen/inflow/event/v1/event_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { startFakeBanks } from '../../src/banks/fake/start-fake-banks.ts'
import { SubscriptionRefused, subscribe } from '../../src/client/subscribe.ts'
import { createBackup } from '../../src/postgres/backups/create-backup.ts'
import { startEmbedded } from '../../src/postgres/embedded/embedded.ts'
import { inflow } from '../cli/run-inflow.ts'
import { makeFolder } from '../support/folder.ts'
import { freePort } from '../support/free-port.ts'
import { grpcClient } from '../support/grpc-client.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { ADMIN_TOKEN, MASTER_KEY } from '../support/service.ts'
import { receiversOf } from './notification-receivers.ts'
import { query } from './standby.ts'

vi.setConfig({ testTimeout: 300_000 })

/** Before, during and after the backup; each of the three. */
const PAYMENTS = Number(process.env['DRILL_PAYMENTS'] ?? 40)
const CONCURRENCY = 8
const WAIT = { timeout: 60_000, interval: 50 }

const client = <S extends Parameters<typeof createClient>[0]>(
  service: S,
  { grpcUrl }: ServiceProcess,
) => grpcClient(service, grpcUrl)

const sessionsOf = (events: readonly Event[]) =>
  events.flatMap(({ payload }) => (payload.case === 'transaction' ? [payload.value.sessionId] : []))

async function removed(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true })
}

/** Follows the events of all businesses until it is refused. */
function follow({ grpcAddress }: ServiceProcess, cursor?: string) {
  const state = { events: [] as Event[], refused: undefined as SubscriptionRefused | undefined }
  const stop = new AbortController()
  onTestFinished(() => stop.abort())
  const start = cursor
    ? ({ case: 'cursor', value: cursor } as const)
    : ({ case: 'beginning', value: true } as const)
  const run = async () => {
    const options = { addresses: [grpcAddress], token: ADMIN_TOKEN, retryMaxMs: 500 }
    for await (const event of subscribe({ ...options, signal: stop.signal, start })) {
      state.events.push(event)
    }
  }
  run().catch((error: unknown) => {
    if (!(error instanceof SubscriptionRefused)) throw error
    state.refused = error
  })
  return state
}

async function openAccount(
  service: ServiceProcess,
  businessId: string,
  reference: string,
  bank: Bank,
) {
  const { account } = await client(AccountService, service).createAccount({
    ...{ businessId, reference, bank, firstName: 'Ada', lastName: 'Obi' },
    ...{ email: 'ada@example.com', phone: '08012345678', idType: 1, idNumber: '22222222222' },
  })
  return account!.accountNumber
}

async function inParallel(count: number, work: (index: number) => Promise<unknown>) {
  let next = 0
  const worker = async () => {
    for (let index = next++; index < count; index = next++) await work(index)
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
}

async function timed<T>(work: () => Promise<T>): Promise<{ result: T; ms: number }> {
  const startedMs = performance.now()
  const result = await work()
  return { result, ms: Math.round(performance.now() - startedMs) }
}

/** Kills the service and its PostgreSQL at once, and removes the data folder. */
async function destroy(service: ServiceProcess, dataDir: string): Promise<void> {
  const text = await readFile(join(dataDir, 'postgres/postmaster.pid'), 'utf8')
  const killed = service.kill()
  process.kill(Number.parseInt(text, 10), 'SIGKILL')
  await killed
  // Its children end by themselves, and may write until then.
  await vi.waitFor(() => removed(dataDir), WAIT)
}

const dataOf = (receiver: Receiver) =>
  receiver.requests.map(({ rawBody }) => JSON.parse(rawBody).data)

test('a lost data folder is restored, and everyone finds out what is missing', async () => {
  const folder = await makeFolder('drill')
  onTestFinished(() => removed(folder))
  const port = await freePort()
  const delays = Array.from({ length: 100 }, () => 200)
  const serviceUrl = `http://127.0.0.1:${port}`
  const banks = await startFakeBanks({ port: 0, serviceUrl, retryDelaysMs: delays })
  onTestFinished(() => banks.close())
  const receiver = await startReceiver()
  onTestFinished(() => receiver.close())
  const start = async (name: string, minutes: string) => {
    const service = await startProcess(
      {
        ...{ ...banks.environment, HTTP_PORT: port, DATA_DIR: join(folder, name) },
        ...{ RECONCILE_INTERVAL_MINUTES: minutes, RECONCILE_GRACE_MINUTES: '0', LOG_LEVEL: 'warn' },
      },
      true,
    )
    onTestFinished(async () => void (await service.stop()))
    return service
  }
  const bank = receiversOf(banks).find(({ code }) => code === 'PALMPAY')!
  // Notifications alone, so that what is found later is found by the restored service.
  const lost = await start('lost', '0')
  const { business } = await client(BusinessService, lost).createBusiness({ name: 'Ada' })
  const businessId = business!.id
  await client(WebhookService, lost).createEndpoint({ businessId, url: receiver.url, kinds: [] })
  const account = await openAccount(lost, businessId, 'order-1', bank.bank)
  const sessions = new Map<string, bigint>()
  const pay = (number: string) => async (index: number) => {
    const payment = bank.receive(number, `${100 + index}.50`, index + 1)
    sessions.set(payment.session, payment.kobo)
    expect((await payment.notify()).acknowledged).toBe(true)
  }
  await inParallel(PAYMENTS, pay(account))
  const env = { DATA_DIR: join(folder, 'lost'), BACKUP_DIR: join(folder, 'backups') }
  const [backup] = await Promise.all([
    timed(() => inflow(['backup', 'create'], { env })),
    inParallel(PAYMENTS, pay(account)),
  ])
  expect(backup.result.code, backup.result.stderr).toBe(0)
  const known = sessions.size
  await inParallel(PAYMENTS, pay(account))
  const later = await openAccount(lost, businessId, 'order-2', bank.bank)
  await inParallel(3, pay(later))
  const follower = follow(lost)
  await vi.waitFor(() => expect(sessionsOf(follower.events)).toHaveLength(sessions.size), WAIT)
  await vi.waitFor(() => {
    const arrived = new Set(dataOf(receiver).map((data) => data.transaction_ref))
    expect(arrived).toEqual(new Set(sessions.keys()))
  }, WAIT)
  const cursor = follower.events.at(-1)!.cursor
  const before = await client(EventService, lost).listEvents({ businessId, limit: 1 })
  expect(before.epoch).toBe(1)

  await destroy(lost, env.DATA_DIR)
  const disasterMs = performance.now()
  const target = join(folder, 'restored')
  const args = ['backup', 'restore', env.BACKUP_DIR, '--data-dir', target]
  const restored = await timed(() => inflow(args, { env }))
  expect(restored.result.code, restored.result.stderr).toBe(0)
  const service = await start('restored', '60')
  const upMs = Math.round(performance.now() - disasterMs)

  await vi.waitFor(() => expect(service.output()).toContain('a new epoch begins'), WAIT)
  // What the bank has of the known account is recorded, once; of the forgotten one it is unmatched.
  const found = [...sessions.keys()].slice(0, -3).sort()
  const log = await vi.waitFor(async () => {
    const listed = await client(EventService, service).listEvents({ businessId, limit: 500 })
    expect(sessionsOf(listed.events).sort()).toEqual(found)
    return listed
  }, WAIT)
  const allMs = Math.round(performance.now() - disasterMs)
  expect(log.epoch).toBe(2)
  const again = log.events.filter(({ epoch }) => epoch === 2)
  expect(sessionsOf(again).length).toBeGreaterThanOrEqual(PAYMENTS)
  const { payments: unmatched } = await vi.waitFor(async () => {
    const listed = await client(ReconciliationService, service).listUnmatchedPayments({})
    expect(listed.payments).toHaveLength(3)
    return listed
  }, WAIT)
  expect(new Set(unmatched.map(({ accountNumber }) => accountNumber))).toEqual(new Set([later]))

  // The subscriber is sent to a place from which it misses nothing.
  const refused = follow(service, cursor)
  await vi.waitFor(() => expect(refused.refused?.reason).toBe('stale_cursor'), WAIT)
  const resumed = follow(service, refused.refused?.cursor)
  await vi.waitFor(() => {
    const missed = sessionsOf(again).filter(
      (session) => !sessionsOf(resumed.events).includes(session),
    )
    expect(missed).toEqual([])
  }, WAIT)

  // Businesses get the events of the new epoch, and no number stands for two events.
  await vi.waitFor(() => {
    const epochs = dataOf(receiver).filter(({ epoch }) => epoch === 2)
    const refs = new Set(epochs.map((data) => data.transaction_ref))
    expect(sessionsOf(again).filter((session) => !refs.has(session))).toEqual([])
  }, WAIT)
  const numbers = new Map(
    dataOf(receiver).map((data) => [data.event_id, `${data.epoch}.${data.sequence}`]),
  )
  expect(new Set(numbers.values()).size).toBe(numbers.size)

  const { balance } = await client(SettlementService, service).getBalance({ businessId })
  const sum = found.reduce((total, session) => total + (sessions.get(session) ?? 0n), 0n)
  expect(balance?.pendingMinor).toBe(sum)
  const remote = { INFLOW_GRPC_URL: service.grpcUrl, INFLOW_TOKEN: ADMIN_TOKEN }
  for (const noun of ['ledger', 'audit']) {
    const { code, stderr } = await inflow([noun, 'verify'], { env: remote })
    expect([noun, code, stderr]).toEqual([noun, 0, expect.any(String)])
  }
  console.log(
    `${known} payments in the backup (${backup.ms} ms), ${sessions.size - known} after it; restored in ` +
      `${restored.ms} ms, served after ${upMs} ms, had all payments after ${allMs} ms`,
  )
})

test('a base backup and archived log are restored to a point in time', async () => {
  const folder = await makeFolder('pitr')
  onTestFinished(() => removed(folder))
  const archive = join(folder, 'archive')
  await mkdir(archive)
  // PostgreSQL may run as another user than the test.
  await chmod(archive, 0o777)
  const primary = await startEmbedded({
    folder: join(folder, 'primary'),
    settings: {
      archive_mode: 'on',
      archive_command: `test ! -f ${archive}/%f && cp %p ${archive}/%f`,
      shared_buffers: '32MB',
    },
  })
  onTestFinished(() => primary.stop())
  const serve = async (DATABASE_URL: string) => {
    const service = await startProcess({ DATABASE_URL, LOG_LEVEL: 'warn' }, true)
    onTestFinished(async () => void (await service.stop()))
    return service
  }
  const first = await serve(primary.url)
  const { business } = await client(BusinessService, first).createBusiness({ name: 'Ada' })
  const businessId = business!.id
  const accountNumber = await openAccount(first, businessId, 'order-1', Bank.BANK_PROVIDUS)
  const record = async (service: ServiceProcess, name: string) => {
    const sessions = Array.from({ length: 10 }, (_, index) => `${name}-${index}`)
    for (const sessionId of sessions) {
      const payment = { bank: Bank.BANK_PROVIDUS, accountNumber, sessionId, amountMinor: 100n }
      await client(TransactionService, service).recordPayment(payment)
    }
    return sessions
  }
  const listed = async (service: ServiceProcess, expected: readonly string[]) =>
    vi.waitFor(async () => {
      const log = await client(EventService, service).listEvents({ businessId, limit: 500 })
      expect(sessionsOf(log.events)).toEqual(expected)
      return log.epoch
    }, WAIT)
  const inBackup = await record(first, 'in-backup')
  const backup = await createBackup({
    ...{ url: primary.url, folder: join(folder, 'backups'), keyFiles: [] },
    ...{ passwordFile: join(folder, 'primary.password'), now: () => new Date() },
    onProgress: () => undefined,
  })
  const good = await record(first, 'good')
  await listed(first, [...inBackup, ...good])
  const [now] = await query<{ at: string }>(primary.url, 'select clock_timestamp()::text as at')
  const mistake = await record(first, 'mistake')
  await listed(first, [...inBackup, ...good, ...mistake])
  await first.stop()
  const [segment] = await query<{ name: string }>(
    primary.url,
    'select pg_walfile_name(pg_switch_wal()) as name',
  )
  await vi.waitFor(() => readFile(join(archive, segment!.name)), WAIT)
  await primary.stop()

  const restored = join(folder, 'restored')
  execFileSync('cp', ['-a', join(backup.path, 'data'), restored])
  execFileSync('cp', ['-a', join(backup.path, 'postgres.password'), `${restored}.password`])
  await appendFile(
    join(restored, 'postgresql.auto.conf'),
    `restore_command = 'cp ${archive}/%f "%p"'\nrecovery_target_time = '${now!.at}'\n` +
      `recovery_target_action = 'promote'\n`,
  )
  await writeFile(join(restored, 'recovery.signal'), '')
  const settings = { hot_standby: 'off', shared_buffers: '32MB' }
  const server = await startEmbedded({ folder: restored, settings })
  onTestFinished(() => server.stop())
  const second = await serve(server.url)
  await vi.waitFor(() => expect(second.output()).toContain('a new epoch begins'), WAIT)
  expect(await listed(second, [...inBackup, ...good])).toBe(2)
  const env = { DATABASE_URL: server.url, MASTER_KEY: MASTER_KEY.toString('base64') }
  const { code, stdout, stderr } = await inflow(['backup', 'check'], { env })
  expect([code, stderr]).toEqual([0, 'Schema, ledger and audit log are sound.\n'])
  expect(stdout).toContain('20 transactions with 20 postings')
  await record(second, 'mistake')
  await listed(second, [...inBackup, ...good, ...mistake])
})
