import { fromBinary } from '@bufbuild/protobuf'
import pino from 'pino'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { type Event, EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { NotificationService } from '../../gen/inflow/notification/v1/notification_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { readConfig } from '../../src/config/config.ts'
import { runHere } from '../cli/run-inflow.ts'
import { until } from '../protocols/rest/rest.ts'
import { useFakeBank } from '../support/fake-bank.ts'
import { startInstance } from '../support/instance.ts'
import { ADMIN_TOKEN, useService } from '../support/service.ts'
import { notify, payee, payment, recordedIn } from './scene.ts'

const bank = useFakeBank()
const service = useService({ BANKS: '9PSB=live,PROVIDUS=live,PALMPAY=live' }, bank.connectors)

beforeEach(() => bank.mishaps.clear())

const run = (...args: string[]) =>
  runHere(args, { INFLOW_GRPC_URL: service.grpcUrl, INFLOW_TOKEN: ADMIN_TOKEN })

/** The events of what is held, from the log that internal subscribers read. */
async function heldEvents(): Promise<Event[]> {
  const { rows } = await service.database.durablePool.query(
    `select o.payload from event_log l join outbox o on o.event_id = l.event_id
      where o.kind = 'PAYMENT_HELD' and o.business_id = '' order by l.position`,
  )
  return rows.map(({ payload }) => fromBinary(EventSchema, payload))
}

const isAbout = (id: string) => (event: Event) => (event.payload.value as { id: string }).id === id

/** A payment whose notification names another amount than the bank confirms. */
async function hold() {
  const to = await payee(service)
  const reported = payment(to.accountNumber)
  bank.payments.set(reported.key, { ...reported, kobo: '99' })
  expect((await notify(service, reported)).text).toBe('MANUAL_REVIEW')
  const { stdout } = await run('notification', 'list', '--bank', '9PSB')
  const row = stdout.split('\n').find((line) => line.includes(reported.session)) ?? ''
  return { to, reported, row, id: row.split(' ', 1)[0]! }
}

test('a held notification is listed, shown decrypted and audited, and retried', async () => {
  const { to, reported, row, id } = await hold()
  expect(row).toMatch(/^ntf_\w+ .* 9PSB +\d{10} +1500\.50 +session-\d+ +.*differ in: amount$/)

  const events = await until(heldEvents, (found) => found.some(isAbout(id)))
  expect(events.find(isAbout(id))).toMatchObject({
    payload: { case: 'heldNotification', value: { accountNumber: to.accountNumber, tries: 1 } },
  })

  const shown = await run('notification', 'show', id)
  expect(JSON.parse(shown.stdout.split('\n\n')[1]!)).toEqual(reported)
  const { entries } = await service.client(AdminService).listAuditEntries({ pageSize: 1 })
  expect(entries[0]).toMatchObject({ action: 'notification.show', targetId: id })

  // The bank still confirms another amount: it is held again, which is another event.
  await run('notification', 'retry', id)
  const isHeld = async () => (await run('notification', 'list')).stdout.includes(id)
  await until(isHeld, (held) => held)
  bank.payments.set(reported.key, reported)
  const retried = await run('notification', 'retry', id)
  expect(retried.stdout).toMatch(/^State +PENDING$/m)
  await until(
    () => recordedIn(service, to),
    (rows) => rows.length === 1,
  )
  expect(await isHeld()).toBe(false)
  await until(heldEvents, (found) => found.filter(isAbout(id)).length === 2)
})

test('a resolved notification stays resolved, whatever the bank repeats', async () => {
  const { to, reported, id } = await hold()
  const resolved = await run(
    'notification',
    'resolve',
    id,
    '--note',
    'the bank corrected it',
    '--yes',
  )
  expect(resolved.stdout).toMatch(/^Note +the bank corrected it$/m)
  const again = await run('notification', 'resolve', id, '--note', 'another', '--yes')
  expect(again.stdout).toMatch(/^Note +the bank corrected it$/m)
  const late = await run('notification', 'retry', id)
  expect([late.code, late.stderr]).toEqual([1, expect.stringContaining('it was processed')])
  bank.payments.set(reported.key, reported)
  expect((await notify(service, reported)).text).toBe('MANUAL_REVIEW')
  expect(await recordedIn(service, to)).toEqual([])
  expect((await run('notification', 'list')).stdout).not.toContain(id)
})

test('what cannot be read is held with an empty account, and can be shown', async () => {
  await notify(service, 'not JSON')
  const { notifications } = await service
    .client(NotificationService)
    .listHeldNotifications({ bank: Bank.BANK_9PSB, pageSize: 1 })
  expect(notifications[0]).toMatchObject({ accountNumber: '', cause: 'no JSON' })
  const notificationId = notifications[0]!.id
  const { body } = await service.client(NotificationService).showNotification({ notificationId })
  expect(body).toBe('not JSON')
})

test('a contradicting report is listed beside the recorded payment, and resolved', async () => {
  const to = await payee(service, Bank.BANK_SAFEHAVEN)
  const report = { bank: Bank.BANK_SAFEHAVEN, accountNumber: to.accountNumber, sessionId: 'c-1' }
  const transactions = service.client(TransactionService)
  const recorded = await transactions.recordPayment({ ...report, amountMinor: 500n })
  await transactions.recordPayment({ ...report, amountMinor: 600n })
  const { stdout } = await run('conflict', 'list')
  const row = stdout.split('\n').find((line) => line.includes('c-1')) ?? ''
  expect(row).toMatch(/^cfl_\w+ .* SAFEHAVEN +c-1 +\d{10} +6\.00 +SUCCESS +\d{10} +5\.00$/)
  const id = row.split(' ', 1)[0]!
  const events = await until(heldEvents, (found) => found.some(isAbout(id)))
  const { accountNumber } = to
  expect(events.find(isAbout(id))).toMatchObject({
    payload: { case: 'paymentConflict', value: { accountNumber, sessionId: 'c-1' } },
  })
  const resolved = await run('conflict', 'resolve', id, '--note', 'a typing error', '--yes')
  expect(resolved.stdout).toMatch(new RegExp(`^Transaction +${recorded.transaction!.id}$`, 'm'))
  const { conflicts } = await service.client(ReconciliationService).listPaymentConflicts({})
  expect(conflicts).toEqual([])
  const { transaction } = await transactions.getTransaction({
    ...{ businessId: to.businessId, sessionId: 'c-1' },
  })
  expect(transaction?.amountMinor).toBe(500n)
})

test('turning the requery off credits nothing that was refused before', async () => {
  const to = await payee(service, Bank.BANK_PALMPAY)
  const reported = payment(to.accountNumber)
  const path = 'palmpay/notifications'
  expect((await notify(service, reported, { path })).text).toBe('UNCONFIRMED')
  const { banks, liveBanks } = readConfig(
    { BANKS: 'PALMPAY=live', BANK_PALMPAY_REQUERY: 'off' },
    bank.connectors(),
  )
  const trusting = await startInstance(service.url, { banks, liveBanks })
  onTestFinished(() => trusting.close())
  const other = payment(to.accountNumber)
  expect((await notify(trusting, other, { path })).text).toBe('RECORDED')
  // The same body, and another one of the same payment.
  for (const body of [reported, { ...reported, extra: 1 } as typeof reported]) {
    expect((await notify(trusting, body, { path })).text).toBe('UNCONFIRMED')
  }
  expect(await recordedIn(service, to)).toHaveLength(1)
  bank.payments.set(reported.key, reported)
  expect((await notify(trusting, reported, { path })).text).toBe('RECORDED')
})

test('the log says of which account and session a held report is', async () => {
  const lines: Record<string, unknown>[] = []
  const log = pino(
    { level: 'warn' },
    { write: (line: string) => void lines.push(JSON.parse(line)) },
  )
  const { banks, liveBanks } = readConfig({ BANKS: '9PSB=live' }, bank.connectors())
  const logging = await startInstance(service.url, { banks, liveBanks }, log)
  onTestFinished(() => logging.close())
  const to = await payee(service)
  const reported = payment(to.accountNumber)
  bank.payments.set(reported.key, { ...reported, kobo: '99' })
  expect((await notify(logging, reported)).text).toBe('MANUAL_REVIEW')
  const report = { bank: Bank.BANK_9PSB, accountNumber: to.accountNumber, sessionId: 'logged-1' }
  for (const amountMinor of [500n, 600n]) {
    await logging.client(TransactionService).recordPayment({ ...report, amountMinor })
  }
  const held = { bank: '9PSB', accountNumber: to.accountNumber }
  expect(lines.filter(({ msg }) => /manual review/.test(`${msg}`))).toMatchObject([
    { ...held, sessionId: reported.session },
    { ...held, sessionId: 'logged-1' },
  ])
})
