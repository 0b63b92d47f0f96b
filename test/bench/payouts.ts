import { setTimeout as sleep } from 'node:timers/promises'
import type { DescMessage, DescMethod, MessageInitShape, MessageShape } from '@bufbuild/protobuf'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { BANK_FACTS } from '../../src/banks/bank.ts'
import { nuban } from '../../src/banks/nuban.ts'
import { startFakePalmPay } from '../../src/banks/palmpay/fake.ts'
import { simulatedName } from '../../src/banks/sandbox.ts'
import type { Bench } from './bench.ts'
import { startChild } from './child.ts'
import { trackCpuUsage } from './cpu-usage.ts'
import { openBare, startGrpcLoad } from './grpc-load.ts'
import { alternateRounds, type Benchmark, type Contender, type Row, toFigure } from './rounds.ts'
import { ACCOUNTS, accountNumberOf, openDatabase, seedAccounts } from './seed.ts'
import { adminClient, type Service, startService } from './service.ts'

/** How long the bank takes to respond. */
const BANK_MS = 50

const BUSINESSES = 16
const CALLERS = 48
const FUNDS_MINOR = 1_000_000_000_000n

/** Beside payments. */
const PER_SECOND = [50, 10] as const

const PAID_LIMIT_MS = 120_000

/**
 * Payouts from the request through the approval of a second person until a bank that takes 50 ms has paid them; a batch;
 * and payments while there are payouts, against payments alone.
 */
export const payouts: Benchmark = async (bench) => {
  const bank = await startChild(bench, import.meta.filename, slowBank, undefined)
  const databaseUrl = await bench.createDatabase()
  await seedAccounts(databaseUrl)
  const service = await startService(bench, databaseUrl, bank.ready)
  const database = await openDatabase(bench, databaseUrl)
  const { address, token } = service
  const { secret: approver } = await adminClient(service, AdminService).issueToken({
    name: 'approver',
    scopes: ['payouts:approve'],
  })
  const businessIds = await fundBusinesses(service, database)
  const load = await startChild(bench, import.meta.filename, payoutLoad, {
    address,
    token,
    approver,
    businessIds,
  })
  const paid = async () => {
    const { rows } = await database.query<{ paid: number; open: number }>(
      `select count(*) filter (where status = 'PAID')::int as paid,
        count(*) filter (where completed_at is null)::int as open from payout`,
    )
    return rows[0] ?? { paid: 0, open: 0 }
  }
  const trackCosts = () => {
    const pids = {
      load: load.pid,
      bank: bank.pid,
      server: service.pid,
      ...(bench.postmaster !== undefined && { database: bench.postmaster }),
    }
    const cpuUsage = trackCpuUsage(pids)
    return (perSecond: number) => {
      const used = cpuUsage()
      return Object.fromEntries(
        Object.keys(pids).map((name) => [
          `${name} ms each`,
          ((used[`${name} cores`] ?? Number.NaN) / perSecond) * 1_000,
        ]),
      )
    }
  }
  const allPaid: Contender = {
    name: 'Inflow',
    async measure(seconds) {
      const before = await paid()
      const costs = trackCosts()
      const startedMs = performance.now()
      await load.run({ seconds, perSecond: undefined })
      const requestedMs = performance.now()
      while ((await paid()).open > 0 && performance.now() - requestedMs < PAID_LIMIT_MS) {
        await sleep(20)
      }
      const endedMs = performance.now()
      const value = ((await paid()).paid - before.paid) / ((endedMs - startedMs) / 1_000)
      return { value, details: { 's behind': (endedMs - requestedMs) / 1_000, ...costs(value) } }
    },
  }
  const [ours] = await alternateRounds(bench, [allPaid])
  const batch = await measureBatch(bench, service, businessIds[0] ?? '')
  const record = await startGrpcLoad(bench, service, { kind: 'record', accounts: ACCOUNTS })
  const payments = (name: string, perSecond: number): Contender => ({
    name,
    async measure(seconds) {
      const beside = perSecond > 0 ? load.run({ seconds, perSecond }) : undefined
      const { callsPerSecond, p99Ms } = await record.run(seconds)
      await beside
      return { value: callsPerSecond, details: { 'p99 ms': p99Ms } }
    },
  })
  const [alone, ...besides] = await alternateRounds(bench, [
    payments('without payouts', 0),
    ...PER_SECOND.map((perSecond) => payments('Inflow', perSecond)),
  ])
  return [
    {
      what: `payouts through an approval, at a bank of ${BANK_MS} ms`,
      unit: '/s',
      ours,
      yardstick: undefined,
      target: { none: true } as const,
    },
    ...batch,
    ...besides.map((beside, at) => ({
      what: `RecordPayment, 64 in flight, beside ${PER_SECOND[at]} payouts/s`,
      unit: '/s',
      ours: beside,
      yardstick: alone,
      target: { atLeastTimes: 0.9 },
    })),
  ]
}

/** A batch: until banks have named its accounts, and until all of its payouts are rejected. */
async function measureBatch(
  bench: Bench,
  service: Service,
  businessId: string,
): Promise<readonly Row[]> {
  const client = adminClient(service, PayoutService)
  const accountNumber = nuban(BANK_FACTS.PALMPAY.nubanCode, 123_456_789)
  const beneficiary = { bankCode: BANK_FACTS.PALMPAY.interbankCode, accountNumber }
  const accountName = simulatedName(accountNumber)
  const items = Array.from({ length: bench.quick ? 500 : 5_000 }, (_, number) => ({
    reference: `item-${number}`,
    amountMinor: 100n,
    beneficiary: { ...beneficiary, accountName },
  }))
  const startedMs = performance.now()
  const { batch } = await client.createPayouts({ businessId, reference: 'batch', items })
  const request = { businessId, batchId: batch?.id ?? '' }
  while (((await client.getBatch(request)).batch?.pendingCount ?? 0) > 0) await sleep(100)
  const namedMs = performance.now()
  const rejected = await client.rejectBatch(request)
  if (rejected.count !== items.length) throw new Error(`${rejected.count} payouts were rejected`)
  const endedMs = performance.now()
  const row = (what: string, ms: number): Row => ({
    what: `a batch of ${items.length} payouts ${what}, at a bank of ${BANK_MS} ms`,
    unit: ' s',
    ours: toFigure('Inflow', [{ value: ms / 1_000 }]),
    yardstick: undefined,
    target: { none: true },
  })
  return [
    row('until all accounts are named', namedMs - startedMs),
    row('rejected', endedMs - namedMs),
  ]
}

/** Gives businesses money that is available, and rules by which each payout needs an approval. */
async function fundBusinesses(
  service: Service,
  database: Awaited<ReturnType<typeof openDatabase>>,
): Promise<string[]> {
  const businessIds: string[] = []
  for (let account = 1; account <= BUSINESSES; account++) {
    const accountNumber = accountNumberOf(account)
    const { transaction } = await adminClient(service, TransactionService).recordPayment({
      bank: Bank.BANK_9PSB,
      accountNumber,
      amountMinor: FUNDS_MINOR,
      sessionId: `funds-${account}`,
    })
    const businessId = transaction?.businessId ?? ''
    const settlements = adminClient(service, SettlementService)
    const available = async () => (await settlements.getBalance({ businessId })).balance
    while ((await available())?.availableMinor !== FUNDS_MINOR) {
      await settlements.settle({ businessId, force: true }).catch(() => undefined)
    }
    await adminClient(service, PayoutService).updatePayoutPolicy({
      policy: { businessId, approvalAboveMinor: 0n },
    })
    businessIds.push(businessId)
  }
  await database.query('analyze')
  return businessIds
}

/** A fake PalmPay that takes its time. Ready: the settings of a service that uses it. */
export async function slowBank() {
  const bank = await startFakePalmPay({ port: 0, delayMs: BANK_MS })
  bank.outgoing.floatMinor = 10n ** 16n
  return { ready: { ...bank.environment, BANKS: 'PALMPAY=live,9PSB=sandbox' } }
}

interface LoadOptions {
  readonly address: string
  readonly token: string
  readonly approver: string
  readonly businessIds: readonly string[]
}

interface LoadCommand {
  readonly seconds: number
  /** Undefined: as many as possible. */
  readonly perSecond: number | undefined
}

/** Requests payouts and approves them. */
export async function payoutLoad({ address, token, approver, businessIds }: LoadOptions) {
  const { method } = PayoutService
  const callOf = async <I extends DescMessage, O extends DescMessage>(
    secret: string,
    desc: DescMethod & { readonly input: I; readonly output: O },
  ) => {
    const call = await openBare({ address, token: secret }, desc)
    return (lane: number, message: MessageInitShape<I>) =>
      new Promise<MessageShape<O>>((resolve, reject) => {
        call(lane, message, (failure, response) => {
          if (response === undefined) reject(new Error(failure))
          else resolve(response)
        })
      })
  }
  const resolveName = await callOf(token, method.resolveAccountName)
  const create = await callOf(token, method.createPayout)
  const approve = await callOf(approver, method.approvePayout)
  const { interbankCode: bankCode, nubanCode } = BANK_FACTS.PALMPAY
  const beneficiary = { bankCode, accountNumber: nuban(nubanCode, 123_456_789), accountName: '' }
  let count = 0
  const requestOne = async (lane: number, resolutions: readonly string[]) => {
    const at = count++ % businessIds.length
    const { payout } = await create(lane, {
      businessId: businessIds[at] ?? '',
      reference: `b${count}`,
      amountMinor: 100n,
      beneficiary,
      resolution: resolutions[at] ?? '',
    })
    await approve(lane, { payoutId: payout?.id ?? '' })
  }
  const run = async ({ seconds, perSecond }: LoadCommand): Promise<number> => {
    const resolutions = await Promise.all(
      businessIds.map(async (businessId, lane) => {
        const { accountNumber } = beneficiary
        return (await resolveName(lane, { businessId, bankCode, accountNumber })).resolution
      }),
    )
    const first = count
    const startedMs = performance.now()
    const elapsedMs = () => performance.now() - startedMs
    const caller = async (_: unknown, lane: number) => {
      while (elapsedMs() < seconds * 1_000) {
        const waitMs =
          perSecond === undefined ? 0 : ((count - first) * 1_000) / perSecond - elapsedMs()
        if (waitMs > 0) await sleep(waitMs)
        else await requestOne(lane, resolutions)
      }
    }
    await Promise.all(Array.from({ length: CALLERS }, caller))
    return count - first
  }
  return { ready: undefined, run }
}
