import { fromBinary } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import type pino from 'pino'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { type Event, EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import {
  NotificationResult,
  NotificationState,
} from '../../gen/inflow/notification/v1/notification_pb.ts'
import { NotificationService } from '../../gen/inflow/notification/v1/notification_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import type { BankCode, BankNotification, LiveConnector } from '../../src/banks/bank.ts'
import { readConfig } from '../../src/config/config.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { createReceiveNotification } from '../../src/notifications/receive-notification.ts'
import type { StoredNotification } from '../../src/notifications/store.ts'
import { callerEnv, runHere } from '../cli/run-inflow.ts'
import { captureLog } from '../support/captured-log.ts'
import { type FakePayment, useFakeBank } from '../support/fake-bank.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { byHand, startProxy, type TcpProxy } from '../support/proxy.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { MASTER_KEY, useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { notify, payee, payment, recordedIn } from './scene.ts'

const BANKS = '9PSB=live,PROVIDUS=live,PALMPAY=live'

const bank = useFakeBank()
const service = useService({ BANKS }, bank.connectors)

beforeEach(() => bank.mishaps.clear())

const query = (text: string, values: unknown[] = []) =>
  service.database.durablePool.query(text, values).then(({ rows }) => rows)

/** The stored notifications of a payment. */
const stored = (key: string) =>
  query('select state, outcome, cause from bank_notification where bank_key = $1 order by id', [
    key,
  ])

/** Makes the pending notifications of a payment due now. */
const hurry = (key: string) =>
  query('update bank_notification set next_try_at = now() where bank_key = $1 and state = $2', [
    key,
    'PENDING',
  ])

/** Starts another instance, with settings of its own. */
function start(url: string, environment: NodeJS.ProcessEnv, log?: pino.Logger): Promise<Instance> {
  const { banks, liveBanks } = readConfig({ BANKS, ...environment }, bank.connectors())
  return startInstance(url, { banks, liveBanks }, log)
}

/** The bank receives a payment. */
function pay(reported: FakePayment): FakePayment {
  bank.payments.set(reported.key, reported)
  return reported
}

describe('a payment that the bank confirms', () => {
  test('is recorded before it is acknowledged, with texts that can be stored', async () => {
    const to = await payee(service)
    const reported = pay(payment(to.accountNumber))
    expect(await notify(service, reported)).toMatchObject({ status: 200, text: 'RECORDED' })
    expect(await recordedIn(service, to)).toEqual([
      { session: reported.session, kobo: '150050', payer: 'BOLA ADE', narration: 'rent' },
    ])
    expect(await stored(reported.key)).toEqual([
      { state: 'PROCESSED', outcome: 'RECORDED', cause: '' },
    ])
    const rows = await query('select recorded_by from transaction where session_id = $1', [
      reported.session,
    ])
    expect(rows).toEqual([{ recorded_by: 'notification' }])
  })

  test('goes to manual review if another payment has its session id', async () => {
    const to = await payee(service)
    const first = pay(payment(to.accountNumber))
    const second = pay(payment(to.accountNumber, { session: first.session }))
    expect((await notify(service, first)).text).toBe('RECORDED')
    expect((await notify(service, second)).text).toBe('MANUAL_REVIEW')
    expect(await recordedIn(service, to)).toHaveLength(1)
  })
})

describe('a payment that the bank has reversed', () => {
  const statusOf = async (session: string) =>
    (await query('select status from transaction where session_id = $1', [session]))[0]?.status
  const record = async (
    { session, account, kobo }: FakePayment,
    status: TransactionStatus = TransactionStatus.SUCCESS,
  ) => {
    const { transaction } = await service.client(TransactionService).recordPayment({
      bank: Bank.BANK_9PSB,
      accountNumber: account,
      sessionId: session,
      amountMinor: BigInt(kobo),
      status,
    })
    return transaction!.id
  }

  /** The bank reverses a payment, and then reports it as a payment. */
  const notifyPaid = async (reported: FakePayment) =>
    (await notify(service, { ...reported, state: 'paid' })).text

  test('is reversed if only an internal service had recorded it', async () => {
    const { accountNumber } = await payee(service)
    const reported = pay(payment(accountNumber, { state: 'reversed' }))
    expect(await notifyPaid(reported)).toBe('UNCONFIRMED')
    await record(reported)
    expect(await notifyPaid(reported)).toBe('RECORDED')
    expect(await statusOf(reported.session)).toBe('REVERSED')
  })

  test('goes to manual review with its transaction if that cannot be reversed', async () => {
    const { accountNumber } = await payee(service)
    const reported = pay(payment(accountNumber, { state: 'reversed' }))
    const id = await record(reported, TransactionStatus.PENDING)
    expect(await notifyPaid(reported)).toBe('MANUAL_REVIEW')
    const cause = `the bank has reversed ${id}: Only a successful payment can be reversed`
    expect(await stored(reported.key)).toMatchObject([{ cause }])
  })

  test('is no unmatched payment any more, which an operator could assign or return', async () => {
    const reported = pay(payment('3999999999'))
    expect((await notify(service, reported)).text).toBe('UNMATCHED')
    const [{ id }] = await query('select id from unmatched_payment where session_id = $1', [
      reported.session,
    ])
    pay({ ...reported, state: 'reversed' })
    expect((await notify(service, { ...reported, state: 'reversed' })).text).toBe('RECORDED')
    // The bank repeats it in another form.
    const again = JSON.stringify({ ...reported, state: 'reversed' }, null, 1)
    expect((await notify(service, again)).text).toBe('DUPLICATE')
    const text = 'select resolution, note from unmatched_payment where id = $1'
    const reversed = { resolution: 'RETURNED', note: 'reversed by the bank' }
    expect(await query(text, [id])).toEqual([reversed])
    const audited = 'select action, actor_kind from audit_entry where target_id = $1'
    expect(await query(audited, [id])).toMatchObject([{ action: 'unmatched_payment.return' }])
  })

  test('does not reverse another payment that the bank gave the same session id', async () => {
    const { accountNumber } = await payee(service)
    const first = pay(payment(accountNumber))
    const second = pay(payment(accountNumber, { session: first.session, state: 'reversed' }))
    expect((await notify(service, first)).text).toBe('RECORDED')
    expect(await notifyPaid(second)).toBe('UNCONFIRMED')
    expect((await notify(service, second)).text).toBe('MANUAL_REVIEW')
    expect(await statusOf(first.session)).toBe('SUCCESS')
  })
})

describe('a payment that the bank does not confirm', () => {
  test('is recorded when its notification is repeated, even if all tries ended unconfirmed', async () => {
    const to = await payee(service)
    const reported = payment(to.accountNumber)
    expect((await notify(service, reported)).text).toBe('UNCONFIRMED')
    await query(
      `update bank_notification set tries = 53, received_at = received_at - interval '2 days'
        where bank_key = $1`,
      [reported.key],
    )
    await hurry(reported.key)
    await waitFor(async () => {
      expect(await stored(reported.key)).toMatchObject([
        { state: 'PROCESSED', outcome: 'UNCONFIRMED' },
      ])
    })
    pay(reported)
    expect((await notify(service, reported)).text).toBe('RECORDED')
    expect(await recordedIn(service, to)).toHaveLength(1)
    expect(await stored(reported.key)).toMatchObject([{ state: 'PROCESSED', outcome: 'RECORDED' }])
    expect((await notify(service, reported)).text).toBe('DUPLICATE')
  })
})

describe('a notification without a payment', () => {
  test('is acknowledged and stored once if it is to be ignored', async () => {
    for (let i = 0; i < 3; i++) expect((await notify(service, 'noise 1')).text).toBe('IGNORED')
    const rows = await query("select 1 from bank_notification where outcome = 'IGNORED'")
    expect(rows).toHaveLength(1)
  })

  test('goes to manual review if it cannot be read, and can be shown', async () => {
    expect((await notify(service, 'garbage')).text).toBe('MANUAL_REVIEW')
    const client = service.client(NotificationService)
    const { notifications } = await client.listHeldNotifications({ pageSize: 1 })
    expect(notifications).toMatchObject([{ accountNumber: '', cause: 'no JSON' }])
    const { body } = await client.showNotification({ notificationId: notifications[0]!.id })
    expect(body).toBe('garbage')
    expect((await notify(service, '')).text).toBe('MANUAL_REVIEW')
  })

  test('changes nothing and is not stored if it is not authentic', async () => {
    const reported = pay(payment((await payee(service)).accountNumber))
    expect((await notify(service, reported, { signature: 'wrong' })).text).toBe('UNAUTHENTICATED')
    expect(await stored(reported.key)).toEqual([])
  })

  test('asks the bank to retry if the connector has a defect', async () => {
    expect((await notify(service, 'throw')).text).toBe('RETRY')
  })
})

test('stored notifications can be read only with the master key', async () => {
  const reported = pay(payment('3999999999'))
  await notify(service, reported)
  const [row] = await query('select raw_encrypted from bank_notification where bank_key = $1', [
    reported.key,
  ])
  const text = row.raw_encrypted.toString('latin1')
  expect(text).not.toContain('3999999999')
  expect(Buffer.from(text, 'base64').toString()).not.toContain('kobo')
})

describe('the path', () => {
  test('is unknown for a bank that is not live or does not exist', async () => {
    for (const path of ['safehaven/notifications', 'nobank/notifications', '9psb/other']) {
      const { status, text, headers } = await notify(service, 'x', { path })
      expect([path, status, JSON.parse(text).code]).toEqual([path, 404, 'unknown_path'])
      expect(headers.get('x-request-id')).toBeTruthy()
    }
  })

  test('accepts only POST, and bodies of up to 64 KiB', async () => {
    const response = await fetch(`${service.httpUrl}/banks/9psb/notifications`)
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST'])
    expect((await notify(service, `noise${' '.repeat(65_531)}`)).text).toBe('IGNORED')
    const { status, text } = await notify(service, `noise${' '.repeat(65_532)}`)
    expect([status, JSON.parse(text).code]).toEqual([413, 'payload_too_large'])
  })
})

/** The events of what is held, from the log that internal subscribers read. */
async function heldEventsOf(id: string): Promise<Event[]> {
  const rows = await query(
    `select o.payload from event_log l join outbox o on o.event_id = l.event_id
      where o.kind = 'PAYMENT_HELD' and o.business_id = '' order by l.position`,
  )
  return rows
    .map(({ payload }) => fromBinary(EventSchema, payload))
    .filter(({ payload }) => (payload.value as { id: string }).id === id)
}

const run = (...args: string[]) => runHere(args, callerEnv(service))

describe('what is held for manual review', () => {
  test('is listed, shown decrypted and audited, and retried', async () => {
    const to = await payee(service)
    const reported = payment(to.accountNumber)
    pay({ ...reported, kobo: '99' })
    expect((await notify(service, reported)).text).toBe('MANUAL_REVIEW')
    const { stdout } = await run('notification', 'list', '--bank', '9PSB')
    const row = stdout.split('\n').find((line) => line.includes(reported.session)) ?? ''
    expect(row).toMatch(/^ntf_\w+ .* 9PSB +\d{10} +1500\.50 +session-\d+ +.*differ in: amount$/)
    const id = row.split(' ', 1)[0]!
    await waitFor(async () => {
      expect(await heldEventsOf(id)).toMatchObject([
        { payload: { case: 'heldNotification', value: { accountNumber: to.accountNumber } } },
      ])
    })
    const shown = await run('notification', 'show', id)
    expect(shown.stdout).toContain(JSON.stringify(reported))
    const { entries } = await service.client(AdminService).listAuditEntries({ pageSize: 1 })
    expect(entries[0]).toMatchObject({ action: 'notification.show', targetId: id })
    // The bank still confirms another amount: it is held again, which is another event.
    await run('notification', 'retry', id)
    await waitFor(async () => expect(await heldEventsOf(id)).toHaveLength(2))
    pay(reported)
    expect((await run('notification', 'retry', id)).stdout).toMatch(/^State +PENDING$/m)
    await waitFor(async () => expect(await recordedIn(service, to)).toHaveLength(1))
  })

  test('is a contradicting report beside the recorded payment, until it is resolved', async () => {
    const to = await payee(service, Bank.BANK_SAFEHAVEN)
    const { accountNumber, businessId } = to
    const report = { bank: Bank.BANK_SAFEHAVEN, accountNumber, sessionId: 'c-1' }
    const transactions = service.client(TransactionService)
    const recorded = await transactions.recordPayment({ ...report, amountMinor: 500n })
    await transactions.recordPayment({ ...report, amountMinor: 600n })
    const { stdout } = await run('conflict', 'list')
    const row = stdout.split('\n').find((line) => line.includes('c-1')) ?? ''
    expect(row).toMatch(/^cfl_\w+ .* SAFEHAVEN +c-1 +\d{10} +6\.00 +SUCCESS +\d{10} +5\.00$/)
    const id = row.split(' ', 1)[0]!
    await waitFor(async () => {
      expect(await heldEventsOf(id)).toMatchObject([
        { payload: { case: 'paymentConflict', value: { accountNumber, sessionId: 'c-1' } } },
      ])
    })
    const resolved = await run('conflict', 'resolve', id, '--note', 'a typing error', '--yes')
    expect(resolved.stdout).toMatch(new RegExp(`^Transaction +${recorded.transaction!.id}$`, 'm'))
    const { conflicts } = await service.client(ReconciliationService).listPaymentConflicts({})
    expect(conflicts).toEqual([])
    const found = await transactions.getTransaction({ businessId, sessionId: 'c-1' })
    expect(found.transaction!.amountMinor).toBe(500n)
  })

  test('is logged with its account and session', async () => {
    const { log, lines } = captureLog('warn')
    const logging = await start(service.url, {}, log)
    onTestFinished(() => logging.close())
    const { accountNumber } = await payee(service)
    const reported = payment(accountNumber)
    pay({ ...reported, kobo: '99' })
    expect((await notify(logging, reported)).text).toBe('MANUAL_REVIEW')
    const report = { bank: Bank.BANK_9PSB, accountNumber, sessionId: 'logged-1' }
    for (const amountMinor of [500n, 600n]) {
      await logging.client(TransactionService).recordPayment({ ...report, amountMinor })
    }
    expect(lines.filter(({ msg }) => /manual review/.test(`${msg}`))).toMatchObject([
      { bank: '9PSB', accountNumber, sessionId: reported.session },
      { bank: '9PSB', accountNumber, sessionId: 'logged-1' },
    ])
  })
})

test('the notifications of a payment are found by its session, and those of a period by result', async () => {
  const before = timestampFromMs(Date.now())
  const to = await payee(service)
  const good = pay(payment(to.accountNumber))
  await notify(service, good)
  const bad = payment(to.accountNumber)
  pay({ ...bad, kobo: '99' })
  await notify(service, bad)
  const list = async (request: Parameters<typeof client.listNotifications>[0]) => {
    const { notifications } = await client.listNotifications({ from: before, ...request })
    return notifications.map(({ sessionId }) => sessionId)
  }
  const client = service.client(NotificationService)
  const { RECORDED, MANUAL_REVIEW, DUPLICATE } = NotificationResult
  expect(await list({})).toEqual([bad.session, good.session])
  // The bank identifies the payment by a key of its own.
  const ofPayment = { bank: Bank.BANK_9PSB, sessionId: good.session }
  const { notifications: found } = await client.listNotifications(ofPayment)
  expect(found).toMatchObject([
    { sessionId: good.session, result: RECORDED, state: NotificationState.PROCESSED, tries: 1 },
  ])
  expect(await list({ bank: Bank.BANK_PALMPAY, sessionId: good.session })).toEqual([])
  expect(await list({ results: [MANUAL_REVIEW, DUPLICATE] })).toEqual([bad.session])
  expect(await list({ state: NotificationState.MANUAL_REVIEW })).toEqual([bad.session])
  expect(await list({ to: before })).toEqual([])
  await expect(list({ sessionId: 'x' })).rejects.toThrow(/Invalid request/)
})

describe('an instance that allows other addresses, and one whose database is unavailable', () => {
  let strict: Instance
  let wire: TcpProxy
  let disconnected: Instance

  beforeAll(async () => {
    strict = await start(service.url, { BANK_9PSB_ALLOWED_CIDRS: '10.0.0.0/8,::2/128' })
    wire = await startProxy(service.url, byHand)
    disconnected = await start(wire.through, { BANK_9PSB_ALLOWED_CIDRS: '127.0.0.0/8' })
  })

  afterAll(async () => {
    await strict?.close()
    await disconnected?.close()
    await wire?.block()
  })

  test('rejects another address', async () => {
    const { status, text } = await notify(strict, 'noise')
    expect([status, JSON.parse(text).code]).toEqual([403, 'permission_denied'])
    expect((await notify(strict, 'noise', { path: 'providus/notifications' })).text).toBe('IGNORED')
  })

  test('asks the bank to retry while the database is unavailable, and loses nothing', async () => {
    const to = await payee(service)
    const reported = pay(payment(to.accountNumber))
    await wire.block()
    expect(await notify(disconnected, reported)).toMatchObject({ status: 503, text: 'RETRY' })
    await wire.unblock()
    // What was recorded too late to be answered is a duplicate.
    await waitFor(async () =>
      expect((await notify(disconnected, reported)).text).toMatch(/^(RECORDED|DUPLICATE)$/),
    )
    expect(await recordedIn(service, to)).toHaveLength(1)
  })
})

test('while the database hangs, a bounded number waits for each bank, which is asked to retry the rest', async () => {
  const hang = Promise.withResolvers<StoredNotification>()
  const processed = { id: 'ntf_1', state: 'PROCESSED', outcome: 'IGNORED', tries: 1 } as const
  const connector = {
    read: () => ({ kind: 'ignored', cause: 'noise' }),
    acknowledge: (body: string) => ({ status: 200, contentType: 'text/plain', body }),
  } as unknown as LiveConnector
  const unused = () => Promise.reject(new Error('not to be called'))
  const receive = createReceiveNotification(createTestRuntime({}), {
    assignSession: unused,
    isReturned: unused,
    recordPayment: unused,
    reversePayment: unused,
    storeNotification: async ({ bank }) => (bank === '9PSB' ? hang.promise : processed),
    finishProcessing: unused,
    encrypter: createEncrypter(MASTER_KEY),
    observe: () => undefined,
  })
  const served = { connector, callTimeoutMs: 10_000, allowedCidrs: [], requery: true }
  const noise: BankNotification = { headers: {}, rawBody: Buffer.from('noise'), pathSecret: '' }
  const send = async (bank: BankCode = '9PSB') => (await receive(bank, served, noise)).body
  const waiting = Array.from({ length: 256 }, () => send())
  expect(await send()).toBe('RETRY')
  expect(await send('PALMPAY')).toBe('IGNORED')
  hang.resolve(processed)
  expect(new Set(await Promise.all(waiting))).toEqual(new Set(['IGNORED']))
  expect(await send()).toBe('IGNORED')
})

test('metrics count notifications and requests by outcome', async () => {
  const text = await (await fetch(`${service.httpUrl}/metrics`)).text()
  expect(text).toMatch(/inflow_bank_notifications_total\{bank="9PSB",outcome="RECORDED"\} \d/)
  expect(text).toMatch(/inflow_bank_notifications_total\{bank="9PSB",outcome="UNAUTHENTICATED"\} 1/)
  expect(text).toMatch(/inflow_bank_last_notification_timestamp_seconds\{bank="9PSB"\} \d{10}/)
  expect(text).toMatch(/inflow_bank_requests_total\{bank="9PSB",result="2xx"\} \d/)
  expect(text).toMatch(/inflow_bank_request_duration_seconds_count\{bank="9PSB"\} \d/)
  expect(text).toMatch(/inflow_bank_breaker_state\{bank="9PSB"\} 0/)
})

test('a payment whose result cannot be stored is acknowledged, and processed again without another credit', async () => {
  const to = await payee(service)
  const reported = pay(payment(to.accountNumber, { key: 'refused' }))
  await query(`create function refuse_result() returns trigger language plpgsql as $$
    begin raise exception 'refused'; end $$`)
  await query(`create trigger refuse_result before update on bank_notification for each row
    when (new.bank_key = 'refused' and new.state <> 'PENDING') execute function refuse_result()`)
  expect((await notify(service, reported)).text).toBe('RECORDED')
  expect(await stored('refused')).toMatchObject([{ state: 'PENDING', outcome: 'RETRY' }])
  await query('drop function refuse_result cascade')
  await hurry('refused')
  await waitFor(async () => {
    expect(await stored('refused')).toMatchObject([{ state: 'PROCESSED', outcome: 'DUPLICATE' }])
  })
  expect(await recordedIn(service, to)).toHaveLength(1)
})
