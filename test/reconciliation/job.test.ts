import { timestampMs } from '@bufbuild/protobuf/wkt'
import { beforeEach, describe, expect, test } from 'vitest'
import { NotificationState } from '../../gen/inflow/notification/v1/notification_pb.ts'
import { NotificationService } from '../../gen/inflow/notification/v1/notification_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { createFindOpenAccounts } from '../../src/accounts/open-accounts.ts'
import type { BankCode, BankPayment, LiveConnector, PaymentListing } from '../../src/banks/bank.ts'
import { BankUnreachableError, NotListedError } from '../../src/banks/http/bank-http.ts'
import { DAY_MS, HOUR_MS } from '../../src/core/durations.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { latestNotificationAt } from '../../src/notifications/held-notifications.ts'
import { createAssignSession } from '../../src/notifications/payment-sessions.ts'
import { createStoreListed } from '../../src/notifications/receive-notification.ts'
import { createReconciliationTurn } from '../../src/reconciliation/job.ts'
import { createRecordPayment } from '../../src/transactions/record-payment.ts'
import { createIsReturned } from '../../src/transactions/resolve-unmatched.ts'
import { payee, recordedIn } from '../notifications/scene.ts'
import { incoming, insertBusiness, testClock } from '../settlement/fixture.ts'
import { captureLog } from '../support/captured-log.ts'
import { useDatabase } from '../support/database.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { MASTER_KEY, useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { fakeBanks, OLD_MS } from './scene.ts'

const { ninePsb, safeHaven, palmPay, environment } = await fakeBanks()
const service = useService(environment)

/** Makes all runs due, and waits until they have finished. */
async function reconcileNow() {
  const { durablePool } = service.database
  await waitFor(async () => {
    const due = await durablePool.query(
      "update reconciliation_run set next_at = '2000-01-01' where not in_progress",
    )
    expect(due.rowCount).toBe(5)
  })
  // The lease of a claimed run is shorter.
  await waitFor(async () => {
    const { rows } = await durablePool.query(
      "select from reconciliation_run where in_progress or next_at < now() + interval '5 minutes'",
    )
    expect(rows).toEqual([])
  })
}

test('records payments whose notifications were missed, at each bank that can list them, each once', async () => {
  const ninth = await payee(service, Bank.BANK_9PSB)
  const haven = await payee(service, Bank.BANK_SAFEHAVEN)
  const palm = await payee(service, Bank.BANK_PALMPAY)
  const old = { atMs: Date.now() - OLD_MS }
  const one = ninePsb.receive(ninth.accountNumber, '0.30', old)
  const two = safeHaven.receive(haven.accountNumber, '1500.50', old)
  // PalmPay may give no session id: then its order number takes its place.
  const three = palmPay.receive(palm.accountNumber, '7.01', { ...old, sessionId: '' })
  for (let run = 0; run < 2; run++) {
    await reconcileNow()
    const recorded = await Promise.all(
      [ninth, haven, palm].map((each) => recordedIn(service, each)),
    )
    expect(recorded.map((rows) => rows.map(({ session, kobo }) => [session, kobo]))).toEqual([
      [[one.sessionId, '30']],
      [[two.sessionId, '150050']],
      [[three.orderNo, '701']],
    ])
  }
  const { runs: listed } = await service.client(ReconciliationService).listReconciliationRuns({})
  expect(listed).toHaveLength(5)
  for (const { from, to, ...run } of listed) {
    expect(run).toMatchObject({ inProgress: false, failureCount: 0, cursor: '' })
    expect(timestampMs(to!)).toBeGreaterThan(timestampMs(from!))
  }
  const metrics = await (await fetch(`${service.httpUrl}/metrics`)).text()
  for (const bank of ['9PSB', 'SAFEHAVEN', 'PALMPAY']) {
    const series = `inflow_bank_missing_payments_total{bank="${bank}",outcome="RECORDED"}`
    expect(metrics).toContain(`${series} 1`)
  }
})

test('holds a listed payment that cannot be recorded, once, and asks the bank again on a retry', async () => {
  const to = await payee(service, Bank.BANK_PALMPAY)
  const old = { atMs: Date.now() - OLD_MS }
  const first = palmPay.receive(to.accountNumber, '7.02', old)
  await reconcileNow()
  const second = palmPay.receive(to.accountNumber, '7.03', { ...old, sessionId: first.sessionId })
  const client = service.client(NotificationService)
  const ofSecond = async () => {
    const { notifications } = await client.listNotifications({ bank: Bank.BANK_PALMPAY })
    return notifications.filter(({ amountMinor }) => amountMinor === 703n)
  }
  const cause = `session ${first.sessionId} belongs to another payment than ${second.orderNo}`
  const held = { cause, state: NotificationState.MANUAL_REVIEW }
  for (let run = 0; run < 2; run++) {
    await reconcileNow()
    expect(await ofSecond()).toMatchObject([{ ...held, tries: 1 }])
  }
  const [{ id: notificationId } = { id: '' }] = await ofSecond()
  const { body } = await client.showNotification({ notificationId })
  expect(JSON.parse(body)).toMatchObject({ bankKey: second.orderNo, amountMinor: '703' })
  await client.retryNotification({ notificationId })
  await waitFor(async () => expect(await ofSecond()).toMatchObject([{ ...held, tries: 2 }]))
  await client.resolveNotification({ notificationId, note: 'credited by hand' })
  await reconcileNow()
  expect(await ofSecond()).toMatchObject([{ state: NotificationState.PROCESSED }])
  expect(await recordedIn(service, to)).toHaveLength(1)
})

test('records on a retry a listed payment whose session has become free, as reconciliation does', async () => {
  const { durablePool } = service.database
  const to = await payee(service, Bank.BANK_PALMPAY)
  const { sessionId } = palmPay.receive(to.accountNumber, '7.04', { atMs: Date.now() - OLD_MS })
  await durablePool.query("insert into bank_payment_key values ('PALMPAY', 'another', $1, now())", [
    sessionId,
  ])
  await reconcileNow()
  const client = service.client(NotificationService)
  const { notifications } = await client.listNotifications({ bank: Bank.BANK_PALMPAY })
  const held = notifications.find(({ amountMinor }) => amountMinor === 704n)
  await durablePool.query("delete from bank_payment_key where bank_key = 'another'")
  await client.retryNotification({ notificationId: held!.id })
  const recordedBy = async () => {
    const text = 'select recorded_by from transaction where session_id = $1'
    return (await durablePool.query(text, [sessionId])).rows
  }
  await waitFor(async () => expect(await recordedBy()).toEqual([{ recorded_by: 'reconciliation' }]))
})

const db = useDatabase()
const clock = testClock(Date.UTC(2026, 10, 20, 12))

interface Listed extends BankPayment {
  readonly atMs: number
}

const query = (text: string, values: unknown[] = []) =>
  db.database.durablePool.query(text, values).then(({ rows }) => rows)

beforeEach(() => query('delete from reconciliation_run'))

let sessions = 0

/** A bank in memory that the job searches. */
function useBank(listing: 'by bank' | 'by account' = 'by bank') {
  const bank: BankCode = listing === 'by bank' ? 'PALMPAY' : '9PSB'
  const payments: Listed[] = []
  const missed: string[] = []
  const faults = new Map<string, Error>()
  let requeries = 0
  let isCut = false
  const { log, lines } = captureLog('warn')
  let response: 'confirmed' | 'denied' | 'unknown' = 'confirmed'
  const list = ({ fromMs, toMs, account, page = '0' }: PaymentListing) => {
    const fault = faults.get(account?.accountNumber ?? '') ?? faults.get('')
    if (fault) throw fault
    const found = payments.filter(
      ({ atMs, accountNumber }) =>
        atMs >= fromMs &&
        atMs < toMs &&
        (account === undefined || account.accountNumber === accountNumber),
    )
    const end = Number(page) + 2
    return {
      payments: found.slice(Number(page), end),
      next: end < found.length ? `${end}` : undefined,
      isCut,
    }
  }
  const connector: Partial<LiveConnector> = {
    listing,
    listPayments: async (request) => list(request),
    requery: async (payment) => {
      requeries += 1
      if (response === 'confirmed') return { kind: response, payment }
      return { kind: response, cause: 'it is no transfer' }
    },
  }
  const runtime = createTestRuntime(db.database, { clock, log })
  const { durablePool } = db.database
  const recordPayment = createRecordPayment(runtime, {
    findOpenAccounts: createFindOpenAccounts(durablePool, () => false),
    isSimulated: () => false,
    onUnmatched: () => undefined,
    onConflict: () => undefined,
  })
  const served = { connector: connector as LiveConnector, requery: true }
  const turn = createReconciliationTurn(runtime, {
    live: new Map([[bank, { ...served, callTimeoutMs: 10_000, allowedCidrs: [] }]]),
    times: { windowMs: 96 * HOUR_MS, intervalMs: HOUR_MS, graceMs: 60_000 },
    assignSession: createAssignSession(runtime),
    isReturned: createIsReturned(durablePool),
    recordPayment,
    reversePayment: undefined,
    storeListed: createStoreListed(runtime, createEncrypter(MASTER_KEY)),
    isSimulated: () => false,
    onMissed: (_, outcome) => void missed.push(outcome),
    onFinished: () => undefined,
  })
  const { signal } = new AbortController()
  /** Lets time pass, and does everything that is due by then. */
  const runAfter = async (ms: number) => {
    clock.set(clock.now() + ms)
    while ((await turn(signal)) !== undefined);
  }
  return {
    bank,
    missed,
    faults,
    recordPayment,
    requeries: () => requeries,
    lines,
    /** From now on, it lists no earlier payments. */
    cut: () => {
      isCut = true
    },
    respond: (kind: typeof response) => {
      response = kind
    },
    /** Opens an account of a live business at the bank. @returns its number */
    async open() {
      const { accountNumber } = await insertBusiness(durablePool)
      await query(
        `update account set bank = $2, connector = 'live', bank_account_id = id where account_number = $1`,
        [accountNumber, bank],
      )
      return accountNumber
    },
    /** The bank receives a payment, ten minutes ago if nothing else is said. */
    receive(accountNumber: string, more: Partial<Listed> = {}) {
      const sessionId = `listed-${++sessions}`
      const payment: Listed = {
        bankKey: sessionId,
        sessionId,
        accountNumber,
        amountMinor: 100n,
        narration: '',
        paidAtMs: undefined,
        atMs: clock.now() - OLD_MS,
        payer: { name: '', accountNumber: '', bankCode: '', bankName: '' },
        ...more,
      }
      payments.push(payment)
      return payment
    },
    /** Lets a day pass, and the next runs finish. */
    runAll: () => runAfter(24 * HOUR_MS),
    /** Lets the time pass in which what failed is tried so often again. */
    async runTimes(times: number) {
      for (let time = 0; time < times; time++) await runAfter(HOUR_MS)
    },
  }
}

const runs = (where = 'failures > 0') =>
  query(`select from reconciliation_run where ${where}`).then((rows) => rows.length)

const recordedFor = (accountNumber: string) =>
  query(
    `select t.session_id from transaction t join account a on a.id = t.account_id
      where a.account_number = $1 order by t.id`,
    [accountNumber],
  ).then((rows) => rows.map((row) => row.session_id))

test('neither requeries nor counts a payment whose notification arrived', async () => {
  const bank = useBank()
  const number = await bank.open()
  const { sessionId } = bank.receive(number)
  await bank.recordPayment({ ...incoming(number, sessionId, 100n), bank: bank.bank, live: true })
  await bank.runAll()
  expect([bank.requeries(), bank.missed]).toEqual([0, []])
  expect(await recordedFor(number)).toEqual([sessionId])
})

test('records a payment for an unknown account as unmatched, with one requery', async () => {
  const bank = useBank()
  const { sessionId } = bank.receive('3999999999')
  for (let run = 0; run < 2; run++) {
    await bank.runAll()
    expect(bank.requeries()).toBe(1)
    expect(
      await query('select from unmatched_payment where session_id = $1', [sessionId]),
    ).toHaveLength(1)
  }
})

test('holds and reports a payment that cannot be recorded once, and none that an operator has, or had', async () => {
  const bank = useBank()
  const number = await bank.open()
  const { sessionId } = bank.receive(number)
  await bank.runAll()
  const notified = `notified-${sessionId}`
  const receivedAt = new Date('2026-01-01')
  await query(
    `insert into bank_notification (id, bank, body_digest, received_at, raw_encrypted, bank_key, state, outcome, cause, tries)
      values ('ntf_notified', $1, '', $2, '', $3, 'MANUAL_REVIEW', 'MANUAL_REVIEW', '', 1)`,
    [bank.bank, receivedAt, notified],
  )
  for (const bankKey of [notified, `listed-${sessionId}`])
    bank.receive(number, { bankKey, sessionId, amountMinor: 200n })
  const held = () =>
    query('select id from bank_notification where session_id = $1', [sessionId]).then(
      (rows) => rows.length,
    )
  for (let run = 0; run < 3; run++) {
    await bank.runAll()
    expect([await held(), bank.missed]).toEqual([1, ['RECORDED', 'MANUAL_REVIEW']])
    await query(
      `update bank_notification set state = 'PROCESSED', resolved_at = now() where bank = $1 and state = 'MANUAL_REVIEW'`,
      [bank.bank],
    )
  }
  // What reconciliation holds does not show that the bank's notifications arrive.
  const em = db.database.orm.em.fork()
  expect(await latestNotificationAt(em, bank.bank)).toEqual(receivedAt)
})

test('stores a payment that its bank neither confirms nor denies, once: no later run may list it', async () => {
  const bank = useBank()
  const number = await bank.open()
  const { sessionId } = bank.receive(number)
  bank.respond('unknown')
  for (let run = 0; run < 2; run++) {
    await bank.runAll()
    expect(bank.missed).toEqual(['RETRY'])
    const stored = 'select state, listed from bank_notification where session_id = $1'
    expect(await query(stored, [sessionId])).toEqual([{ state: 'PENDING', listed: true }])
  }
  bank.respond('confirmed')
  await bank.runAll()
  expect(await recordedFor(number)).toEqual([sessionId])
})

describe('does not record', () => {
  test('a credit of a statement that the bank does not confirm as a transfer', async () => {
    const bank = useBank()
    const number = await bank.open()
    bank.receive(number)
    bank.respond('denied')
    await bank.runAll()
    expect(bank.requeries()).toBe(1)
    expect(await recordedFor(number)).toEqual([])
  })

  test('a payment so young that its notification may be in transit', async () => {
    const bank = useBank()
    const number = await bank.open()
    bank.receive(number, { atMs: clock.now() + 24 * HOUR_MS - 1_000 })
    await bank.runAll()
    expect(await recordedFor(number)).toEqual([])
  })

  test('another amount for a recorded session id, but queues it for manual review once', async () => {
    const bank = useBank()
    const number = await bank.open()
    const { sessionId } = bank.receive(number)
    await bank.runAll()
    bank.receive(number, { sessionId, bankKey: sessionId, amountMinor: 1_100n })
    for (let run = 0; run < 2; run++) {
      await bank.runAll()
      expect(bank.requeries()).toBe(2)
    }
    expect(await recordedFor(number)).toEqual([sessionId])
    expect(await query('select from payment_conflict where amount_minor = 1100')).toHaveLength(1)
  })
})

test('finds more payments than a page holds, and retries a bank that fails', async () => {
  const bank = useBank()
  const number = await bank.open()
  const sessionIds = Array.from({ length: 5 }, () => bank.receive(number).sessionId)
  bank.faults.set('', new BankUnreachableError('answered 500', true))
  await bank.runTimes(1)
  expect(await runs()).toBe(1)
  expect(await recordedFor(number)).toEqual([])
  bank.faults.clear()
  await bank.runTimes(1)
  expect(await runs()).toBe(0)
  expect(new Set(await recordedFor(number))).toEqual(new Set(sessionIds))
})

test('says once that payments may be missing before the oldest that the bank lists', async () => {
  const bank = useBank('by account')
  const [number, other] = [await bank.open(), await bank.open()]
  bank.cut()
  const paid = (account: string, minutesAgo: number) =>
    bank.receive(account, { paidAtMs: clock.now() - minutesAgo * 60_000 })
  const notify = ({ accountNumber, sessionId }: Listed) =>
    bank.recordPayment({
      ...incoming(accountNumber, sessionId, 100n),
      bank: bank.bank,
      live: true,
    })
  // The oldest listed payment was notified, or is the one that was missing.
  await notify(paid(number, 30))
  paid(number, 20)
  paid(other, 30)
  await notify(paid(other, 20))
  for (let run = 0; run < 2; run++) await bank.runAll()
  const said = bank.lines.filter(({ msg }) => String(msg).includes('earlier ones may be missing'))
  expect(said).toMatchObject([{ level: 40, bank: bank.bank, accountNumber: other }])
})

test('says for which period it no longer looks after an outage of more than a month', async () => {
  const bank = useBank()
  await bank.runAll()
  const said = () => bank.lines.filter(({ msg }) => String(msg).includes('are not looked for'))
  clock.set(clock.now() + 29 * DAY_MS)
  await bank.runAll()
  expect(said()).toEqual([])
  clock.set(clock.now() + 40 * DAY_MS)
  await bank.runAll()
  expect(said()).toMatchObject([{ level: 50, bank: bank.bank, scope: 'payments' }])
})

test('lists no accounts of the sandbox, which banks do not know', async () => {
  const bank = useBank('by account')
  const number = await bank.open()
  const { accountNumber: simulated } = await insertBusiness(db.database.durablePool)
  bank.faults.set(simulated, new NotListedError('an unknown account'))
  const { sessionId } = bank.receive(number)
  await bank.runAll()
  expect(await runs()).toBe(0)
  expect(await recordedFor(number)).toEqual([sessionId])
})

describe('an account that its bank cannot list', () => {
  test('is skipped without delaying others', async () => {
    const bank = useBank('by account')
    const [gone, number] = [await bank.open(), await bank.open()]
    bank.faults.set(gone, new NotListedError('closed'))
    const { sessionId } = bank.receive(number)
    await bank.runTimes(4)
    expect(await runs('in_progress')).toBe(0)
    expect(await recordedFor(number)).toEqual([sessionId])
  })

  test('is skipped, too, if the bank says so of each', async () => {
    const bank = useBank('by account')
    await bank.open()
    bank.faults.set('', new NotListedError('closed'))
    await bank.runTimes(4)
    expect(await runs("scope = 'all accounts' and in_progress")).toBe(0)
  })

  test('is not skipped while the bank is unavailable: the run keeps its cursor', async () => {
    const bank = useBank('by account')
    const number = await bank.open()
    const { sessionId } = bank.receive(number)
    bank.faults.set('', new BankUnreachableError('answered 500', true))
    await bank.runTimes(6)
    expect(
      await runs("scope = 'all accounts' and in_progress and cursor = '' and failures > 5"),
    ).toBe(1)
    bank.faults.clear()
    await bank.runTimes(1)
    expect(await runs('in_progress')).toBe(0)
    expect(await recordedFor(number)).toEqual([sessionId])
  })
})
