import { timestampMs } from '@bufbuild/protobuf/wkt'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { RunScope } from '../../gen/inflow/reconciliation/v1/reconciliation_run_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { type Payee, payee, recordedIn } from '../notifications/scene.ts'
import { CUSTOMER } from '../protocols/matrix/scene.ts'
import { useService } from '../support/service.ts'
import { WAIT_LIMIT_MS } from '../support/wait-for.ts'
import { fakeBanks, OLD_MS } from './scene.ts'

const { ninePsb, safeHaven, palmPay, environment } = await fakeBanks()
const service = useService(environment)

afterEach(() => {
  for (const { faults } of [ninePsb, safeHaven, palmPay]) faults.clear()
})

const old = () => ({ atMs: Date.now() - OLD_MS })

const until = (condition: () => Promise<boolean>) =>
  vi.waitUntil(condition, { timeout: WAIT_LIMIT_MS, interval: 25 })

/** Makes all runs due and waits until they have finished. */
async function reconcile(): Promise<void> {
  const { durablePool } = service.database
  await until(async () => {
    const { rows } = await durablePool.query('select from reconciliation_run')
    return rows.length === 5
  })
  await durablePool.query(
    "update reconciliation_run set next_at = '2000-01-01' where not in_progress",
  )
  // The lease of a claimed run is shorter.
  await until(async () => {
    const { rows } = await durablePool.query(
      "select from reconciliation_run where in_progress or next_at < now() + interval '5 minutes'",
    )
    return rows.length === 0
  })
}

const sessionsIn = async (account: Payee) =>
  (await recordedIn(service, account)).map(({ session, kobo }) => [session, kobo])

async function count(table: string, where = 'true'): Promise<number> {
  const { rows } = await service.database.durablePool.query(
    `select count(*)::int as n from ${table} where ${where}`,
  )
  return rows[0].n
}

/** Makes failed runs due at once, until a condition holds. */
const hurry = (condition: () => Promise<boolean>) =>
  until(async () => {
    // A claimed run has a lease of up to three minutes; a due run keeps its turn.
    await service.database.durablePool.query(
      `update reconciliation_run set next_at = now() where failures > 0 and next_at > now()
        and (next_at < now() + interval '125 seconds' or next_at > now() + interval '185 seconds')`,
    )
    return condition()
  })

test('records payments whose notifications were missed, each once', async () => {
  const ninth = await payee(service, Bank.BANK_9PSB)
  const haven = await payee(service, Bank.BANK_SAFEHAVEN)
  const palm = await payee(service, Bank.BANK_PALMPAY)
  const one = ninePsb.receive(ninth.accountNumber, '0.30', old())
  const two = safeHaven.receive(haven.accountNumber, '1500.50', old())
  const three = palmPay.receive(palm.accountNumber, '20', old())
  // PalmPay may give no session id: then its order number takes its place.
  const four = palmPay.receive(palm.accountNumber, '7.01', { ...old(), sessionId: '' })
  for (let i = 0; i < 2; i++) {
    await reconcile()
    expect(await sessionsIn(ninth)).toEqual([[one.sessionId, '30']])
    expect(await sessionsIn(haven)).toEqual([[two.sessionId, '150050']])
    const inPalm = new Set((await sessionsIn(palm)).map(String))
    expect(inPalm).toEqual(new Set([`${three.sessionId},2000`, `${four.orderNo},701`]))
  }
  expect(await count('ledger_posting')).toBe(4)
  expect(await count('transaction', "recorded_by = 'reconciliation'")).toBe(4)
  const client = service.client(ReconciliationService)
  const { runs } = await client.listReconciliationRuns({})
  expect(runs).toHaveLength(5)
  for (const { bank, inProgress, failureCount, cursor, from, to } of runs) {
    expect({ bank, inProgress, failureCount, cursor }).toMatchObject({
      ...{ inProgress: false, failureCount: 0, cursor: '' },
    })
    expect(timestampMs(to!)).toBeGreaterThan(timestampMs(from!))
  }
  const ofPalm = await client.listReconciliationRuns({ bank: Bank.BANK_PALMPAY })
  expect(ofPalm.runs).toMatchObject([{ scope: RunScope.PAYMENTS }])
  const metrics = await (await fetch(`${service.httpUrl}/metrics`)).text()
  for (const [bank, missed] of [
    ['9PSB', 1],
    ['SAFEHAVEN', 1],
    ['PALMPAY', 2],
  ]) {
    const line = `inflow_bank_missing_payments_total{bank="${bank}",outcome="RECORDED"} ${missed}`
    expect(metrics).toContain(line)
  }
})

test('neither requeries nor counts a payment whose notification arrived', async () => {
  const palm = await payee(service, Bank.BANK_PALMPAY)
  const order = palmPay.receive(palm.accountNumber, '55', old())
  const url = `${service.httpUrl}/banks/palmpay/notifications`
  const response = await fetch(url, { method: 'POST', body: palmPay.notification(order) })
  expect(await response.text()).toBe('success')
  const requeries = palmPay.requests.detail
  const missed = async () => {
    const metrics = await (await fetch(`${service.httpUrl}/metrics`)).text()
    return metrics.match(/^inflow_bank_missing_payments_total\{bank="PALMPAY".*$/gm)
  }
  const before = await missed()
  await reconcile()
  expect(palmPay.requests.detail).toBe(requeries)
  expect(await missed()).toEqual(before)
  expect(await sessionsIn(palm)).toEqual([[order.sessionId, '5500']])
})

test('records a payment for an unknown account as unmatched, with one requery', async () => {
  const unknown = palmPay.openAccount('Unknown')
  const order = palmPay.receive(unknown.virtualAccountNo, '3', old())
  const where = `session_id = '${order.sessionId}' and resolution is null`
  const before = palmPay.requests.detail
  await reconcile()
  expect(await count('unmatched_payment', where)).toBe(1)
  const requeries = palmPay.requests.detail
  expect(requeries - before).toBe(1)
  await reconcile()
  expect(palmPay.requests.detail).toBe(requeries)
  expect(await count('unmatched_payment', where)).toBe(1)
})

describe('does not record', () => {
  test('a credit of a statement that the bank does not confirm as a transfer', async () => {
    const haven = await payee(service, Bank.BANK_SAFEHAVEN)
    const credit = safeHaven.receive(haven.accountNumber, '10', old())
    safeHaven.faults.add('status', 'statusCode 400')
    await reconcile()
    expect(await sessionsIn(haven)).toEqual([])
    await reconcile()
    expect(await sessionsIn(haven)).toEqual([[credit.sessionId, '1000']])
  })

  test('a payment so young that its notification may be in transit', async () => {
    const palm = await payee(service, Bank.BANK_PALMPAY)
    palmPay.receive(palm.accountNumber, '10')
    await reconcile()
    expect(await sessionsIn(palm)).toEqual([])
  })

  test('another amount for a recorded session id, but queues it for manual review once', async () => {
    const ninth = await payee(service, Bank.BANK_9PSB)
    const other = await payee(service, Bank.BANK_9PSB)
    const { sessionId } = ninePsb.receive(ninth.accountNumber, '10', old())
    const own = ninePsb.receive(other.accountNumber, '12', old())
    const requestsOfRun = async () => {
      const before = ninePsb.requests.confirm
      await reconcile()
      return ninePsb.requests.confirm - before
    }
    await reconcile()
    const forNothingNew = await requestsOfRun()
    ninePsb.receive(other.accountNumber, '11', { ...old(), sessionId })
    expect(await requestsOfRun()).toBeGreaterThan(forNothingNew)
    expect(await requestsOfRun()).toBe(forNothingNew)
    expect(await sessionsIn(ninth)).toEqual([[sessionId, '1000']])
    expect(await sessionsIn(other)).toEqual([[own.sessionId, '1200']])
    expect(await count('payment_conflict', 'amount_minor = 1100')).toBe(1)
  })
})

test('finds more payments than a page holds, and retries a bank that fails', async () => {
  const palm = await payee(service, Bank.BANK_PALMPAY)
  for (let i = 0; i < 130; i++) palmPay.receive(palm.accountNumber, '1', old())
  palmPay.faults.add('pageList', '500')
  const { durablePool } = service.database
  await durablePool.query(
    "update reconciliation_run set next_at = '2000-01-01' where bank = 'PALMPAY'",
  )
  await until(async () => (await count('reconciliation_run', 'failures > 0')) === 1)
  expect(await sessionsIn(palm)).toEqual([])
  await durablePool.query("update reconciliation_run set next_at = '2000-01-01' where failures > 0")
  await until(async () => (await sessionsIn(palm)).length === 130)
})

test('skips an account that its bank cannot list, without delaying others', async () => {
  const { durablePool } = service.database
  const haven = await payee(service, Bank.BANK_SAFEHAVEN)
  const gone = {
    id: 'acc_00000000000000000000000000',
    reference: 'R-GONE',
    merchant_reference: 'gone',
    account_number: '0000000009',
    bank_account_id: 'gone',
  }
  await durablePool.query(
    `insert into account select (jsonb_populate_record(a, $2)).* from account a
      where account_number = $1`,
    [haven.accountNumber, gone],
  )
  const credit = safeHaven.receive(haven.accountNumber, '12', old())
  await durablePool.query(
    "update reconciliation_run set next_at = '2000-01-01' where not in_progress",
  )
  await hurry(
    async () => (await count('reconciliation_run', 'in_progress or next_at < now()')) === 0,
  )
  expect(await sessionsIn(haven)).toEqual([[credit.sessionId, '1200']])
  await durablePool.query("update account set status = 'CLOSED' where id = $1", [gone.id])
})

test('lists no accounts of test mode, which banks do not know', async () => {
  const { id: businessId } = await service.business()
  for (const bank of [Bank.BANK_SAFEHAVEN, Bank.BANK_9PSB]) {
    const request = { businessId, test: true, reference: `test-${bank}`, bank, ...CUSTOMER }
    await service.client(AccountService).createAccount(request)
  }
  const { durablePool } = service.database
  await durablePool.query("update reconciliation_run set next_at = '2000-01-01'")
  await until(
    async () =>
      (await count('reconciliation_run', 'failures > 0')) > 0 ||
      (await count('reconciliation_run', 'in_progress or next_at < now()')) === 0,
  )
  expect(await count('reconciliation_run', 'failures > 0')).toBe(0)
})

describe('if none of the accounts can be listed', () => {
  /** As if the bank had closed the accounts or knew them by other ids. */
  const rename = (set: string) =>
    service.database.durablePool.query(
      `update account set bank_account_id = ${set} where bank = 'SAFEHAVEN' and live`,
    )

  test('a run finishes when the bank says so of each account', async () => {
    await payee(service, Bank.BANK_SAFEHAVEN)
    await rename("'gone-' || bank_account_id")
    await service.database.durablePool.query(
      "update reconciliation_run set next_at = '2000-01-01' where bank = 'SAFEHAVEN'",
    )
    await hurry(
      async () => (await count('reconciliation_run', 'in_progress or next_at < now()')) === 0,
    )
    await rename('substr(bank_account_id, 6)')
  })

  test('a run keeps its cursor while the bank is unavailable', async () => {
    const haven = await payee(service, Bank.BANK_SAFEHAVEN)
    const credit = safeHaven.receive(haven.accountNumber, '9', old())
    safeHaven.faults.add('statement', '500', 1_000)
    await service.database.durablePool.query(
      "update reconciliation_run set next_at = '2000-01-01' where bank = 'SAFEHAVEN'",
    )
    const where = "bank = 'SAFEHAVEN' and scope = 'all accounts'"
    await hurry(async () => (await count('reconciliation_run', `${where} and failures > 5`)) === 1)
    expect(await count('reconciliation_run', `${where} and in_progress and cursor = ''`)).toBe(1)
    safeHaven.faults.clear()
    await hurry(
      async () => (await count('reconciliation_run', 'in_progress or next_at < now()')) === 0,
    )
    expect(await sessionsIn(haven)).toEqual([[credit.sessionId, '900']])
  })
})
