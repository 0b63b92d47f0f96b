import { type Client, createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { SettlementStatus } from '../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { detailNotes, type Sample, toFigure } from './alternate-rounds.ts'
import type { Bench } from './bench.ts'
import type { Benchmark } from './benchmark.ts'
import { startLoad } from './child-process.ts'
import { loadContender } from './load/load-contender.ts'
import type { PacedLoadOptions } from './load/paced-load.ts'
import { SEEDED_BUSINESS, seedAccounts, seedLedger, seedTransactions } from './seed.ts'
import { type ServiceProcess, startServiceProcess } from './service-process.ts'

const TRANSACTIONS = 1_000_000
const TRANSACTIONS_QUICK = 100_000
const PAYMENTS_PER_SECOND = 500
const QUICK_SECONDS = 8

/** A settlement of a million transactions has completed by then. */
const WINDOWS_MAX = 300

/** Payments during a settlement of their business, against the same without the settlement. */
export const settlement: Benchmark = {
  name: 'settlement',
  slow: true,
  async measure(bench) {
    const transactions = bench.seconds < QUICK_SECONDS ? TRANSACTIONS_QUICK : TRANSACTIONS
    const databaseUrl = await bench.createDatabase()
    await seedAccounts(databaseUrl)
    // From here on all accounts, and so the payments of the load, belong to the business.
    await seedTransactions(databaseUrl, SEEDED_BUSINESS, transactions)
    await seedLedger(databaseUrl, SEEDED_BUSINESS)
    await bench.checkpoint()
    const service = await startServiceProcess(bench, databaseUrl)
    const load = await startLoad(bench, 'load/paced-load.ts', {
      address: service.grpcAddress,
      token: service.adminToken,
      paymentsPerSecond: PAYMENTS_PER_SECOND,
    } satisfies PacedLoadOptions)
    const payments = loadContender(bench, { name: 'payments', load, server: service.pid })
    const window = async (): Promise<Sample> => toP99(await payments.measure(bench.seconds))
    await window()
    const without: Sample[] = []
    for (let round = 0; round < bench.rounds; round++) without.push(await window())
    const { during, seconds } = await whileSettling(bench, service, window)
    const yardstick = toFigure({ name: 'without the settlement' }, without)
    const ours = toFigure({ name: 'while it runs' }, during)
    const perSecond = Math.round(transactions / seconds).toLocaleString('en')
    return [
      {
        name: 'settlement',
        what: `p99 of ${PAYMENTS_PER_SECOND} payments/s while ${transactions.toLocaleString('en')} are settled`,
        unit: ' ms',
        ours,
        yardstick,
        target: { atMost: 2 * yardstick.median },
        notes: [
          `settled in ${seconds.toFixed(0)} s: ${perSecond} a second`,
          ...detailNotes(yardstick, ours),
        ],
      },
    ]
  },
}

function toP99({ details = {} }: Sample): Sample {
  const { 'p99 ms': value = Number.NaN, ...rest } = details
  return { value, details: rest }
}

/** Measures one window after the other until the settlement is done. */
async function whileSettling(
  bench: Bench,
  service: ServiceProcess,
  window: () => Promise<Sample>,
): Promise<{ during: Sample[]; seconds: number }> {
  const client = createClient(
    SettlementService,
    createGrpcTransport({
      baseUrl: `http://${service.grpcAddress}`,
      interceptors: [
        (next) => (request) => {
          request.header.set('authorization', `Bearer ${service.adminToken}`)
          return next(request)
        },
      ],
    }),
  )
  const started = performance.now()
  let seconds = 0
  const settling = settle(client).then(() => {
    seconds = (performance.now() - started) / 1000
  })
  // A failure is thrown where it is awaited, after the windows.
  settling.catch(() => undefined)
  const during: Sample[] = []
  while (seconds === 0 && during.length < WINDOWS_MAX) {
    during.push(await window())
    bench.log(`  p99 ${during.at(-1)?.value.toFixed(1)} ms; ${await progress(client)}`)
  }
  await settling
  // The settlement ended within the last window, which is dropped unless it is the only one.
  return { during: during.length > 1 ? during.slice(0, -1) : during, seconds }
}

async function settle(client: Client<typeof SettlementService>): Promise<void> {
  const request = { businessId: SEEDED_BUSINESS, requestId: 'bench', force: true }
  for (;;) {
    const { completed } = await client.settle(request)
    if (completed) return
  }
}

async function progress(client: Client<typeof SettlementService>): Promise<string> {
  const { settlements } = await client.listSettlements({ pageSize: 1 })
  const [last] = settlements
  if (last === undefined) return 'not begun'
  const count = last.transactionCount.toLocaleString('en')
  const state = last.status === SettlementStatus.COMPLETED ? 'done' : `${last.percentDone} %`
  return `${count} settled, ${state}`
}
