import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { BANK_FACTS } from '../../src/banks/bank.ts'
import { nuban } from '../../src/banks/nuban.ts'
import { startFakePalmPay } from '../../src/banks/palmpay/fake.ts'
import { startChild } from './child.ts'
import { listen } from './clients.ts'
import { startGrpcLoad } from './grpc-load.ts'
import { alternateRounds, type Benchmark, type Contender } from './rounds.ts'
import { ACCOUNTS, accountNumberOf, openDatabase, seedAccounts } from './seed.ts'
import { adminClient, startService } from './service.ts'

/** How long the bank takes to respond. */
const BANK_MS = 50

const BUSINESSES = 16
const CALLERS = 48
const FUNDS_MINOR = 1_000_000_000_000n

/** Beside payments. */
const PER_SECOND = 50

const PAID_LIMIT_MS = 120_000

/**
 * Payouts from the request through the approval of a second person until a bank that takes 50 ms has paid them; and
 * payments while there are 50 payouts a second, against payments alone.
 */
export const payouts: Benchmark = async (bench) => {
  const bank = await startChild(bench, import.meta.filename, slowBank, undefined)
  const databaseUrl = await bench.createDatabase()
  await seedAccounts(databaseUrl)
  const service = await startService(bench, databaseUrl, bank.ready)
  const database = await openDatabase(bench, databaseUrl)
  const { address, token } = service
  const { secret: approver } = await adminClient(service, AdminService).issueToken({
    ...{ name: 'approver', scopes: ['payouts:approve'] },
  })
  const load = await startChild(bench, import.meta.filename, payoutLoad, {
    ...{ address, token, approver, businessIds: await fundBusinesses(service, database) },
  })
  const paid = async () => {
    const { rows } = await database.query<{ paid: number; open: number }>(
      `select count(*) filter (where status = 'PAID')::int as paid,
        count(*) filter (where completed_at is null)::int as open from payout`,
    )
    return rows[0] ?? { paid: 0, open: 0 }
  }
  const allPaid: Contender = {
    name: 'Inflow',
    async measure(seconds) {
      const before = await paid()
      const startedMs = performance.now()
      await load.run({ seconds, perSecond: undefined })
      const requestedMs = performance.now()
      while ((await paid()).open > 0 && performance.now() - requestedMs < PAID_LIMIT_MS) {
        await sleep(20)
      }
      const endedMs = performance.now()
      const value = ((await paid()).paid - before.paid) / ((endedMs - startedMs) / 1_000)
      return { value, details: { 's behind': (endedMs - requestedMs) / 1_000 } }
    },
  }
  const [ours] = await alternateRounds(bench, [allPaid])
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
  const [beside, alone] = await alternateRounds(bench, [
    payments('Inflow', PER_SECOND),
    payments('without payouts', 0),
  ])
  return [
    {
      what: `payouts through an approval, at a bank of ${BANK_MS} ms`,
      ...{ unit: '/s', ours, yardstick: undefined, target: { none: true } as const },
    },
    {
      what: `RecordPayment, 64 in flight, beside ${PER_SECOND} payouts/s`,
      ...{ unit: '/s', ours: beside, yardstick: alone, target: { atLeastTimes: 0.9 } },
    },
  ]
}

/** Gives businesses money that is available, and rules by which each payout needs an approval. */
async function fundBusinesses(
  service: Parameters<typeof adminClient>[0],
  database: Awaited<ReturnType<typeof openDatabase>>,
): Promise<string[]> {
  const businessIds: string[] = []
  for (let account = 1; account <= BUSINESSES; account++) {
    const accountNumber = accountNumberOf(account)
    const { transaction } = await adminClient(service, TransactionService).recordPayment({
      ...{ bank: Bank.BANK_9PSB, accountNumber, amountMinor: FUNDS_MINOR },
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
  const bank = await startFakePalmPay({ port: 0 })
  bank.outgoing.floatMinor = 10n ** 16n
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const { host: _, connection: __, 'content-length': ___, ...headers } = request.headers
    await sleep(BANK_MS)
    const answered = await fetch(new URL(request.url ?? '/', bank.url), {
      method: request.method ?? 'POST',
      headers: headers as Record<string, string>,
      body: Buffer.concat(chunks),
    })
    response.writeHead(answered.status, { 'content-type': 'application/json' })
    response.end(await answered.text())
  })
  const ready = {
    ...bank.environment,
    BANKS: 'PALMPAY=live,9PSB=sandbox',
    BANK_PALMPAY_BASE_URL: `http://${await listen(server)}`,
  }
  return { ready }
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
  const clientOf = (secret: string) =>
    createClient(
      PayoutService,
      createGrpcTransport({
        baseUrl: `http://${address}`,
        interceptors: [
          (next) => (request) => {
            request.header.set('authorization', `Bearer ${secret}`)
            return next(request)
          },
        ],
      }),
    )
  const [asking, approving] = [clientOf(token), clientOf(approver)]
  const { interbankCode: bankCode, nubanCode } = BANK_FACTS.PALMPAY
  const beneficiary = { bankCode, accountNumber: nuban(nubanCode, 123_456_789), accountName: '' }
  let count = 0
  const requestOne = async (resolutions: readonly string[]) => {
    const at = count++ % businessIds.length
    const { payout } = await asking.createPayout({
      ...{ businessId: businessIds[at] ?? '', reference: `b${count}`, amountMinor: 100n },
      ...{ beneficiary, resolution: resolutions[at] ?? '' },
    })
    await approving.approvePayout({ payoutId: payout?.id ?? '' })
  }
  const run = async ({ seconds, perSecond }: LoadCommand): Promise<number> => {
    const resolutions = await Promise.all(
      businessIds.map(async (businessId) => {
        return (await asking.resolveAccountName({ businessId, ...beneficiary })).resolution
      }),
    )
    const first = count
    const startedMs = performance.now()
    const elapsedMs = () => performance.now() - startedMs
    const caller = async () => {
      while (elapsedMs() < seconds * 1_000) {
        if (perSecond !== undefined) {
          const dueMs = ((count - first) * 1_000) / perSecond
          if (dueMs > elapsedMs()) {
            await sleep(dueMs - elapsedMs())
            continue
          }
        }
        await requestOne(resolutions)
      }
    }
    await Promise.all(Array.from({ length: CALLERS }, caller))
    return count - first
  }
  return { ready: undefined, run }
}
