import { createClient } from '@connectrpc/connect'
import { Pool } from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { PauseScope, PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutDecision, PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { readConfig } from '../../src/config/config.ts'
import { HOUR_MS, MINUTE_MS } from '../../src/core/durations.ts'
import { startPayoutDatabase } from '../model/payout-database.ts'
import {
  beneficiaryAt,
  compareBooks,
  fundBusiness,
  startPayingBanks,
  startPayoutInstance,
} from '../model/payouts.ts'
import { createTestDatabase, query } from '../support/database.ts'
import { grpcClient, grpcTransport } from '../support/grpc-client.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { createMovedClock } from '../support/moved-clock.ts'
import { waitFor, waitUntil } from '../support/wait-for.ts'

const FUNDS_MINOR = 1_000_000_000n
/** More than a new beneficiary gets without an approval. */
const LARGE_MINOR = 20_000_000n

let movedMs = 0
const clock = { now: () => Date.now() + movedMs }
let banks: Awaited<ReturnType<typeof startPayingBanks>>

beforeAll(async () => {
  banks = await startPayingBanks(clock)
})
afterAll(() => banks?.close())

/** A database whose clock can be moved, and which can be copied while no instance runs. */
async function startDatabase() {
  const { url, drop } = await createTestDatabase()
  onTestFinished(drop)
  const pool = new Pool({ connectionString: url })
  await createMovedClock(pool)
  await pool.end()
  await setClock(url)
  return url
}

const setClock = (url: string) =>
  query(url, `update moved_clock set by = interval '1 ms' * ${movedMs}`)

/** @param isDown whether no instance sends meanwhile */
async function move(url: string, byMs: number, isDown = false): Promise<void> {
  if (!isDown) {
    // First, as a turn between the two would take the instance for silent.
    await query(url, `update payout_sender set alive_at = alive_at + interval '1 ms' * ${byMs}`)
  }
  movedMs += byMs
  await setClock(url)
}

/** A copy of a database as it is now: of the same cluster and timeline, as an older copy of a data folder is. */
async function copyDatabase(url: string): Promise<string> {
  const name = `${new URL(url).pathname.slice(1)}_copy`
  const at = (path: string) => Object.assign(new URL(url), { pathname: `/${path}` }).href
  await query(at('postgres'), `create database ${name} template ${new URL(url).pathname.slice(1)}`)
  onTestFinished(
    async () => void (await query(at('postgres'), `drop database ${name} with (force)`)),
  )
  return at(name)
}

async function start(url: string): Promise<Instance> {
  const ports = { HTTP_PORT: '0', GRPC_PORT: '0', RECONCILE_INTERVAL_MINUTES: '0' }
  const instance = await startInstance(
    url,
    readConfig({ ...banks.environment, ...ports }),
    undefined,
    clock,
  )
  let closed: Promise<void> | undefined
  const close = () => (closed ??= instance.close())
  onTestFinished(close)
  return { ...instance, close }
}

let serial = 0

/** What a caller asks for, again and again if it has to. */
function wanted(businessId: string, amountMinor = 50_000n) {
  serial += 1
  const beneficiary = beneficiaryAt('PALMPAY', serial)
  return { businessId, reference: `r${serial}`, amountMinor, beneficiary }
}

const untilGeneration = (url: string, generation: number) =>
  waitUntil(async () => {
    const [row] = await query<{ generation: number }>(url, 'select generation from payout_sender')
    return row!.generation >= generation
  })

async function request({ client }: Pick<Instance, 'client'>, each: ReturnType<typeof wanted>) {
  const payouts = client(PayoutService)
  const { businessId, beneficiary } = each
  const { resolution } = await payouts.resolveAccountName({ businessId, ...beneficiary })
  return (await payouts.createPayout({ ...each, resolution })).payout!
}

const until = ({ client }: Pick<Instance, 'client'>, payoutId: string, status: PayoutStatus) =>
  waitUntil(async () => {
    const { payout } = await client(PayoutService).getPayout({ payoutId })
    return payout?.status === status
  })

async function expectAgreement(url: string, { client }: Pick<Instance, 'client'>) {
  const pool = new Pool({ connectionString: url })
  try {
    const references = new Set(
      (await pool.query<{ bank_reference: string }>('select bank_reference from payout')).rows.map(
        (row) => row.bank_reference,
      ),
    )
    const wrong = await compareBooks(pool, banks.paying)
    // The banks also have the payouts of other tests.
    expect(wrong.filter((each) => references.has(each.slice(0, 25)))).toEqual([])
  } finally {
    await pool.end()
  }
  for await (const { discrepancies } of client(SettlementService).verifyLedger({})) {
    expect(discrepancies).toEqual([])
  }
}

test('a restored copy of an hour ago pays nothing twice that was sent since', async () => {
  const url = await startDatabase()
  const before = await start(url)
  const businessId = await fundBusiness(before.grpcUrl, FUNDS_MINOR)
  const payouts = (instance: Instance) => instance.client(PayoutService)
  await payouts(before).pausePayouts({ scope: PauseScope.GLOBAL, reason: 'before the backup' })
  const [approved, pending] = await Promise.all([
    request(before, wanted(businessId)),
    request(before, wanted(businessId, LARGE_MINOR)),
  ])
  expect(pending.status).toBe(PayoutStatus.PENDING_APPROVAL)
  await before.close()
  const copy = await copyDatabase(url)

  // What the copy does not know.
  const lost = await start(url)
  await payouts(lost).resumePayouts({ scope: PauseScope.GLOBAL })
  const { secret } = await lost
    .client(AdminService)
    .issueToken({ name: 'approver', scopes: ['payouts:approve'] })
  await grpcClient(PayoutService, lost.grpcUrl, secret).approvePayout({ payoutId: pending.id })
  const after = wanted(businessId)
  const forgotten = await request(lost, after)
  for (const { id } of [approved, pending, forgotten]) await until(lost, id, PayoutStatus.PAID)
  await lost.close()

  await move(copy, HOUR_MS, true)
  const restored = await start(copy)
  await untilGeneration(copy, 2)
  await payouts(restored).resumePayouts({ scope: PauseScope.GLOBAL })
  await restored.client(EventService).bumpEpoch({})
  // The banks know them, so they are adopted.
  for (const { id } of [approved, pending]) await until(restored, id, PayoutStatus.PAID)
  // The caller repeats what it does not find here, and asks for another one.
  await waitUntil(async () => {
    const [row] = await query<{ asks: boolean }>(
      copy,
      'select repeats_until > now() as asks from payout_sender',
    )
    return row!.asks === true
  })
  const repeated = await request(restored, after)
  expect(repeated).toMatchObject({ bankReference: forgotten.bankReference })
  await until(restored, repeated.id, PayoutStatus.PAID)
  const fresh = await request(restored, wanted(businessId))
  await waitUntil(async () => {
    const { payout } = await payouts(restored).getPayout({ payoutId: fresh.id })
    return payout!.detail.includes('no bank knows it yet')
  })
  await move(copy, 16 * MINUTE_MS)
  await until(restored, fresh.id, PayoutStatus.PAID)
  await expectAgreement(copy, restored)
})

test('a payout that the lost history cancelled is not sent while payouts are paused after the restore', async () => {
  const url = await startDatabase()
  const before = await start(url)
  const businessId = await fundBusiness(before.grpcUrl, FUNDS_MINOR)
  const payouts = (instance: Instance) => instance.client(PayoutService)
  const drill = { scope: PauseScope.GLOBAL, reason: 'restore' }
  await payouts(before).pausePayouts(drill)
  const { id: payoutId, bankReference } = await request(before, wanted(businessId))
  await before.close()
  const copy = await copyDatabase(url)
  const lost = await start(url)
  await payouts(lost).cancelPayout({ payoutId })
  await lost.close()

  await move(copy, HOUR_MS, true)
  await query(copy, 'delete from payout_pause')
  const restored = await start(copy)
  await untilGeneration(copy, 2)
  await payouts(restored).pausePayouts(drill)
  const detail = async () => (await payouts(restored).getPayout({ payoutId })).payout!.detail
  await waitUntil(async () => (await detail()).includes('no bank knows it yet'))
  await expect(payouts(restored).cancelPayout({ payoutId })).rejects.toThrow('was restored')
  await move(copy, 16 * MINUTE_MS)
  await waitUntil(async () => (await detail()) === 'waits: all payouts are paused')
  await payouts(restored).cancelPayout({ payoutId })
  await payouts(restored).resumePayouts(drill)
  await until(restored, payoutId, PayoutStatus.CANCELLED)
  expect(banks.paying.flatMap(({ book }) => book.transfers.get(bankReference) ?? [])).toEqual([])
  await expectAgreement(copy, restored)
})

test('a request that is repeated after a failover lost its payout is not paid twice', async () => {
  const { url, copy, failOver } = await startPayoutDatabase(onTestFinished)
  await setClock(url)
  const instance = await start(url)
  const businessId = await fundBusiness(instance.grpcUrl, FUNDS_MINOR)
  await copy()
  const each = wanted(businessId)
  const forgotten = await request(instance, each)
  await until(instance, forgotten.id, PayoutStatus.PAID)

  await failOver()
  await setClock(url)
  await untilGeneration(url, 2)
  const repeated = await waitFor(() => request(instance, each))
  expect(repeated).toMatchObject({ bankReference: forgotten.bankReference })
  await until(instance, repeated.id, PayoutStatus.PAID)
  await expectAgreement(url, instance)
})

test('a restored payout that was being sent, and was paid through another bank since, is not paid twice', async () => {
  const { url, copy, restore } = await startPayoutDatabase(onTestFinished)
  await setClock(url)
  const lost = await start(url)
  const payouts = lost.client(PayoutService)
  const businessId = await fundBusiness(lost.grpcUrl, FUNDS_MINOR)
  await payouts.pausePayouts({ scope: PauseScope.GLOBAL, reason: 'before the backup' })
  const { id } = await request(lost, wanted(businessId))
  await copy()
  const bank = Bank.BANK_PALMPAY
  await payouts.pausePayouts({ scope: PauseScope.BANK, bank, reason: 'it states no names' })
  await payouts.resumePayouts({ scope: PauseScope.GLOBAL })
  await until(lost, id, PayoutStatus.PAID)
  const { payout: paid } = await payouts.getPayout({ payoutId: id })
  await lost.close()

  await move(url, HOUR_MS, true)
  await restore()
  await setClock(url)
  // As if the copy had been made while PalmPay was asked for the name: nothing was sent there.
  await query(
    url,
    `update payout set status = 'SUBMITTING', bank = 'PALMPAY', claims = claims + 1,
        submitted_at = created_at, next_at = now() where id = '${id}'`,
  )
  const restored = await start(url)
  await until(restored, id, PayoutStatus.PAID)
  const { payout } = await restored.client(PayoutService).getPayout({ payoutId: id })
  expect(payout?.bank).toBe(paid?.bank)
  await expectAgreement(url, restored)
})

test.each([
  ['states its float again', false, 2 * MINUTE_MS],
  ['does not state its float', true, 11 * MINUTE_MS],
])(
  'a bank that denies access and %s gets no further payouts until a minute, or ten, have passed',
  async (_, isFloatDenied, endsAfterMs) => {
    const ninePsb = banks.paying.find(({ code }) => code === '9PSB')!
    onTestFinished(ninePsb.heal)
    const url = await startDatabase()
    const instance = await start(url)
    const businessId = await fundBusiness(instance.grpcUrl, FUNDS_MINOR)
    const payouts = instance.client(PayoutService)
    const requestOne = () =>
      request(instance, { ...wanted(businessId), beneficiary: beneficiaryAt('9PSB', serial) })
    const isNextThere = async () => {
      const { id } = await requestOne()
      await until(instance, id, PayoutStatus.PAID)
      return (await payouts.getPayout({ payoutId: id })).payout!.bank === Bank.BANK_9PSB
    }
    const readsFloat = (isRead: boolean) =>
      waitUntil(async () => {
        const { floats } = await payouts.getFloat({ live: true })
        const { readAt, error } = floats.find(({ bank }) => bank === Bank.BANK_9PSB)!
        return isRead ? readAt !== undefined && error === '' : error !== ''
      })
    await readsFloat(true)
    expect(await isNextThere()).toBe(true)
    // Denied again with a new token.
    ninePsb.fail('send', 'denied', 2)
    if (isFloatDenied) ninePsb.fail('float', 'denied', 1_000)
    const denied = await requestOne()
    await until(instance, denied.id, PayoutStatus.UNKNOWN)
    expect(await isNextThere()).toBe(false)
    if (isFloatDenied) {
      await move(url, 2 * MINUTE_MS)
      await readsFloat(false)
      expect(await isNextThere()).toBe(false)
    }
    await move(url, endsAfterMs)
    // It still denies transfers: one payout tries it, and further ones are paid elsewhere.
    ninePsb.fail('send', 'denied', 1_000)
    let triedIt = 0
    await waitUntil(async () => {
      const requested = await Promise.all([requestOne(), requestOne(), requestOne()])
      for (const { id } of requested) {
        let status = PayoutStatus.UNSPECIFIED as PayoutStatus
        await waitUntil(async () => {
          status = (await payouts.getPayout({ payoutId: id })).payout!.status
          return status === PayoutStatus.PAID || status === PayoutStatus.UNKNOWN
        })
        if (status === PayoutStatus.UNKNOWN) triedIt += 1
      }
      return triedIt > 0
    })
    expect(triedIt).toBe(1)
    ninePsb.heal()
    await move(url, endsAfterMs)
    await waitUntil(isNextThere)
  },
)

test.each([
  ['before the bank has it', 'hang', PayoutStatus.MANUAL_REVIEW],
  ['after the bank paid it, before the result is stored', 'hang after', PayoutStatus.PAID],
] as const)(
  'an instance that is killed %s leaves a payout that is not paid twice',
  async (_, fault, status) => {
    const url = await startDatabase()
    // It is killed before it gives up.
    const options = { aheadMs: movedMs, approverToken: () => '', bankTimeoutMs: 30_000 }
    const killed = await startPayoutInstance(url, banks.environment, options)
    onTestFinished(() => killed.kill())
    const client: Instance['client'] = (service) =>
      createClient(service, grpcTransport(killed.grpcUrl))
    const businessId = await waitFor(() => fundBusiness(killed.grpcUrl, FUNDS_MINOR))
    const palmPay = banks.paying.find(({ code }) => code === 'PALMPAY')!
    palmPay.fail('send', fault)
    const received = palmPay.received('send')
    const { id, bankReference } = await request({ client }, wanted(businessId))
    await waitUntil(async () => {
      const [row] = await query<{ status: string }>(
        url,
        `select status from payout where id = '${id}'`,
      )
      const isSent =
        fault === 'hang'
          ? palmPay.received('send') > received
          : palmPay.book.transfers.has(bankReference)
      return row!.status === 'SUBMITTING' && isSent
    })
    await killed.kill()
    const other = await start(url)
    await move(url, 4 * MINUTE_MS)
    await until(other, id, fault === 'hang' ? PayoutStatus.UNKNOWN : PayoutStatus.PAID)
    await move(url, 16 * MINUTE_MS)
    await query(url, `update payout set next_at = now() where id = '${id}'`)
    await until(other, id, status)
    if (status === PayoutStatus.MANUAL_REVIEW) {
      const resend = { payoutId: id, decision: PayoutDecision.RESEND, note: 'not in their books' }
      await other.client(PayoutService).resolvePayout(resend)
      await until(other, id, PayoutStatus.PAID)
    }
    await expectAgreement(url, other)
  },
)
