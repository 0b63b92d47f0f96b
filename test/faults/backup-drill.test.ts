import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { appendFile, chmod, mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { IdType } from '../../gen/inflow/account/v1/account_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import {
  RecordOutcome,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { startFakeBanks } from '../../src/banks/fake/start-fake-banks.ts'
import { forEachConcurrently } from '../../src/core/concurrency.ts'
import { serverUser, spawnAs } from '../../src/postgres/embedded/server-user.ts'
import { runHere, verifyBooks } from '../cli/run-inflow.ts'
import { query } from '../support/database.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/free-port.ts'
import { grpcTransport } from '../support/grpc-client.ts'
import { openAccountOver } from '../support/opened-account.ts'
import { findPostgres, type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { scrape } from '../support/scrape.ts'
import { MASTER_KEY } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { receiversOf } from './notification-receivers.ts'
import { client, follow, sessionsOf, startHttpsReceiver, webhooksAt } from './scene.ts'

/** Before, during and after the base backup, and after the point in time; each of the four. */
const PAYMENTS = Number(process.env['DRILL_PAYMENTS'] ?? 40)
const CONCURRENCY = 8

const run = promisify(execFile)

/** The folder of PostgreSQL's programs. The packages for npm have no pg_basebackup. */
const bin = findPostgres() ?? ''

test.skipIf(!existsSync(join(bin, 'pg_basebackup')))(
  'a lost server is restored to a point in time, and everyone finds out what is missing',
  async () => {
    const { disk, banks, receiver, start } = await prepare()
    const data = join(disk, 'primary')
    // The archive is the disk itself.
    const archiveCommand = `test ! -f ${disk}/%f && cp %p ${disk}/%f`
    const primary = await startPostgres({
      bin,
      folder: data,
      settings: { archive_mode: 'on', archive_command: archiveCommand },
    })
    onTestFinished(primary.stop)
    // Notifications alone, so that what is found later is found by the restored service.
    const lost = await start(primary.url, '0')
    const { business } = await client(BusinessService, lost).createBusiness({ name: 'Ada' })
    const businessId = business!.id
    await client(WebhookService, lost).createEndpoint({ businessId, url: receiver.url, kinds: [] })
    const bank = receiversOf(banks).find(({ code }) => code === 'PALMPAY')!
    const account = await openAccount(lost, businessId, 'order-1', bank.bank)
    const reported = await openAccount(lost, businessId, 'order-2', Bank.BANK_PROVIDUS)
    /** The amounts of the payments that were acknowledged, by session. */
    const paid = new Map<string, bigint>()
    const pay = (number: string) => async (index: number) => {
      const payment = bank.receive(number, `${100 + index}.50`, index + 1)
      expect((await payment.notify()).acknowledged).toBe(true)
      paid.set(payment.session, payment.kobo)
    }
    const report = async (service: ServiceProcess, sessionId: string) => {
      const payment = { bank: Bank.BANK_PROVIDUS, accountNumber: reported, amountMinor: 100n }
      const recorded = client(TransactionService, service).recordPayment({ ...payment, sessionId })
      paid.set(sessionId, payment.amountMinor)
      return (await recorded).outcome
    }
    const follower = follow(lost)
    const followed = () =>
      waitFor(() => expect(new Set(sessionsOf(follower.events))).toEqual(keysOf(paid)))

    await inParallel(PAYMENTS, pay(account))
    const base = join(disk, 'base')
    await Promise.all([takeBaseBackup(primary, base), inParallel(PAYMENTS, pay(account))])
    await inParallel(PAYMENTS, pay(account))
    expect(await report(lost, 'reported-before')).toBe(RecordOutcome.RECORDED)
    await followed()
    const kept = keysOf(paid)
    const target = await read(primary, 'select clock_timestamp()::text')

    await inParallel(PAYMENTS, pay(account))
    expect(await report(lost, 'reported-after')).toBe(RecordOutcome.RECORDED)
    const missed = keysOf(paid).difference(kept)
    const forgotten = await openAccount(lost, businessId, 'order-3', bank.bank)
    await inParallel(3, pay(forgotten))
    await followed()
    await waitFor(() => {
      expect(new Set(webhooksAt(receiver).map((each) => each.transaction_ref))).toEqual(
        keysOf(paid),
      )
    })
    const cursor = follower.events.at(-1)!.cursor
    expect((await client(EventService, lost).listEvents({ businessId, limit: 1 })).epoch).toBe(1)
    const segment = await read(primary, 'select pg_walfile_name(pg_switch_wal())')
    await waitFor(() => readFile(join(disk, segment)))
    // A gauge that takes long to read is missing once.
    await waitFor(async () =>
      expect(await archivingOf(lost, primary)).toEqual([
        0,
        expect.stringMatching(/^ok: the server archives its log; its last segment: 2/),
      ]),
    )

    await destroy(lost, primary, data)
    const disasterMs = performance.now()
    const since = () => Math.round(performance.now() - disasterMs)
    await recoverTo(target, base, disk)
    // It must not write into the archive that it was restored from, and says so.
    const settings = { archive_mode: 'on', archive_command: 'false' }
    const restored = await startPostgres({ bin, folder: base, settings })
    onTestFinished(restored.stop)
    await waitFor(async () =>
      expect(await read(restored, 'select pg_is_in_recovery()::text')).toBe('false'),
    )
    const restoredMs = since()
    const service = await start(restored.url, '60')
    const upMs = since()
    await waitFor(() => expect(service.output()).toContain('a new epoch begins'))

    // A service repeats what it reported. What the bank has of a known account is recorded, once.
    expect(await report(service, 'reported-before')).toBe(RecordOutcome.DUPLICATE)
    expect(await report(service, 'reported-after')).toBe(RecordOutcome.RECORDED)
    const log = await waitFor(async () => {
      const listed = await client(EventService, service).listEvents({ businessId, limit: 500 })
      expect(sessionsOf(listed.events).sort()).toEqual([...kept, ...missed].sort())
      return listed
    })
    const allMs = since()
    expect(log.epoch).toBe(2)
    const again = log.events.filter(({ epoch }) => epoch === 2)
    expect(new Set(sessionsOf(again))).toEqual(missed)
    // The account is forgotten, so what the bank has of it is unmatched.
    const { payments: unmatched } = await waitFor(async () => {
      const listed = await client(ReconciliationService, service).listUnmatchedPayments({})
      expect(listed.payments).toHaveLength(3)
      return listed
    })
    expect(new Set(unmatched.map((each) => each.accountNumber))).toEqual(new Set([forgotten]))

    // The subscriber is sent to a place from which it misses nothing.
    const refused = follow(service, cursor)
    await waitFor(() => expect(refused.refused?.reason).toBe('stale_cursor'))
    const resumed = follow(service, refused.refused?.cursor)
    await waitFor(() => {
      expect(missed.difference(new Set(sessionsOf(resumed.events)))).toEqual(new Set())
    })

    // Businesses get the events of the new epoch, and no number stands for two events.
    await waitFor(() => {
      const renewed = webhooksAt(receiver).filter(({ epoch }) => epoch === 2)
      expect(missed.difference(new Set(renewed.map((each) => each.transaction_ref)))).toEqual(
        new Set(),
      )
    })
    const numbers = new Map(
      webhooksAt(receiver).map((each) => [each.event_id, `${each.epoch}.${each.sequence}`]),
    )
    expect(new Set(numbers.values()).size).toBe(numbers.size)

    const { balance } = await client(SettlementService, service).getBalance({ businessId })
    const amounts = [...kept, ...missed].map((session) => paid.get(session) ?? 0n)
    expect(balance?.pendingMinor).toBe(amounts.reduce((sum, amount) => sum + amount, 0n))
    await verifyBooks(service)
    await waitFor(async () => {
      expect(await archivingOf(service, restored)).toEqual([
        1,
        expect.stringMatching(/^warn: the server cannot archive its log: 0\S+, \d+ failures$/),
      ])
    })
    console.log(
      `${kept.size} payments at the point in time, ${paid.size - kept.size} after it; ` +
        `restored in ${restoredMs} ms, served after ${upMs} ms, had all payments after ${allMs} ms`,
    )
  },
)

/** Fake banks, a receiver of webhooks, and a disk that PostgreSQL's user may write to. */
async function prepare() {
  const folder = temporaryFolder()
  const disk = join(folder, 'disk')
  await mkdir(disk)
  await chmod(disk, 0o777)
  const port = await freePort()
  const serviceUrl = `http://127.0.0.1:${port}`
  const retryDelaysMs = Array.from({ length: 100 }, () => 200)
  const banks = await startFakeBanks({ port: 0, serviceUrl, retryDelaysMs })
  onTestFinished(() => banks.close())
  const https = await startHttpsReceiver()
  const start = async (DATABASE_URL: string, RECONCILE_INTERVAL_MINUTES: string) => {
    const environment = {
      ...banks.environment,
      DATABASE_URL,
      HTTP_PORT: `${port}`,
      RECONCILE_INTERVAL_MINUTES,
      RECONCILE_GRACE_MINUTES: '0',
      ...https.environment,
      LOG_LEVEL: 'warn',
    }
    const service = await startProcess(environment, true)
    onTestFinished(async () => void (await service.stop()))
    return service
  }
  return { disk, banks, receiver: https.receiver, start }
}

async function openAccount(
  { grpcUrl }: ServiceProcess,
  businessId: string,
  reference: string,
  bank: Bank,
) {
  const identified = { businessId, reference, bank, idType: IdType.NIN, idNumber: '22222222222' }
  return (await openAccountOver(grpcTransport(grpcUrl), identified)).accountNumber
}

const keysOf = (paid: ReadonlyMap<string, bigint>) => new Set(paid.keys())

const inParallel = (count: number, work: (index: number) => Promise<void>) =>
  forEachConcurrently(Array(count).keys(), CONCURRENCY, work)

/** Reads one text. */
async function read({ url }: PostgresServer, expression: string): Promise<string> {
  const [row] = await query<{ value: string }>(url, `${expression} as value`)
  return row!.value
}

/** As in the guide to operations, by the user of the server. */
async function takeBaseBackup({ url }: PostgresServer, base: string): Promise<void> {
  const user = spawnAs(serverUser(base))
  const args = [`--dbname=${url}`, `--pgdata=${base}`, '--checkpoint=fast']
  await run(join(bin, 'pg_basebackup'), args, user)
  await run(join(bin, 'pg_verifybackup'), [base], user)
}

async function recoverTo(target: string, base: string, archive: string): Promise<void> {
  await appendFile(
    join(base, 'postgresql.auto.conf'),
    `restore_command = 'cp ${archive}/%f "%p"'
recovery_target_time = '${target}'
recovery_target_action = 'promote'
`,
  )
  await run('touch', [join(base, 'recovery.signal')], spawnAs(serverUser(base)))
}

/** Kills the service and its server at once, and removes the server's data. */
async function destroy(service: ServiceProcess, server: PostgresServer, data: string) {
  const killed = service.kill()
  process.kill(server.pid, 'SIGKILL')
  await killed
  // Its children end by themselves, and may write until then.
  await waitFor(() => rm(data, { recursive: true, force: true }))
}

/** What the metric and `doctor` say of the server's archive. */
async function archivingOf({ httpUrl }: ServiceProcess, { url }: PostgresServer) {
  const failing = (await scrape(httpUrl)).value('inflow_wal_archive_failing')
  const env = { DATABASE_URL: url, MASTER_KEY: MASTER_KEY.toString('base64') }
  const { stdout } = await runHere(['doctor', '--json'], env)
  const { findings } = JSON.parse(stdout) as { findings: Record<string, string>[] }
  const [found] = findings.filter(({ area }) => area === 'Backups')
  return [failing, `${found?.['level']}: ${found?.['found']}`]
}
