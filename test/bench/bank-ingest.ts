import pg from 'pg'
import { freePort } from '../support/free-port.ts'
import type { Contender } from './alternate-rounds.ts'
import type { Bench } from './bench.ts'
import { type Benchmark, compareWith } from './benchmark.ts'
import { startChildProcess } from './child-process.ts'
import { drainOutbox, openOurs, RECORD_PAYMENT } from './ingest.ts'
import { loadContender } from './load/load-contender.ts'
import type { NotificationLoadOptions, NotificationLoadReady } from './load/notification-load.ts'
import type { LoadCommand, LoadResult } from './load/run-callers.ts'
import { ACCOUNTS, seedAccounts } from './seed.ts'
import { startServiceProcess } from './service-process.ts'

const CREDENTIALS = {
  publicKey: 'bench',
  privateKey: 'bench',
  notificationUser: 'bench',
  notificationPassword: 'bench',
}

/** Payments that a live bank reports, against payments over gRPC. */
export const bankIngest: Benchmark = {
  name: 'bank-ingest',
  async measure(bench) {
    const row = {
      name: 'bank-ingest',
      what: "a live bank's notifications, 64 in flight",
      unit: '/s',
      target: { atLeastTimes: 0.4 },
    }
    return compareWith(bench, row, {
      ours: await openNotified(bench),
      yardstick: { ...(await openOurs(bench, RECORD_PAYMENT)), name: 'ingest' },
    })
  },
}

/** The bank runs in the process of the load, and answers the requeries of the service. */
async function openNotified(bench: Bench): Promise<Contender> {
  const port = await freePort()
  const options: NotificationLoadOptions = {
    url: `http://127.0.0.1:${port}/banks/9psb/notifications`,
    credentials: CREDENTIALS,
    accounts: ACCOUNTS,
    connections: 64,
  }
  const load = await startChildProcess<NotificationLoadReady, LoadCommand, LoadResult>(
    bench,
    'load/notification-load.ts',
    options,
  )
  const { url, accountNumbers } = load.ready
  const databaseUrl = await bench.createDatabase()
  await seedAccounts(databaseUrl)
  const database = new pg.Client({ connectionString: databaseUrl })
  await database.connect()
  bench.onEnd(() => database.end())
  await database.query(
    `update account a set connector = 'live', account_number = n.number
      from unnest($1::text[]) with ordinality n(number, at) where a.account_number = lpad(at::text, 10, '0')`,
    [accountNumbers],
  )
  const service = await startServiceProcess(bench, databaseUrl, {
    HTTP_PORT: String(port),
    BANKS: '9PSB=live',
    BANK_9PSB_BASE_URL: url,
    BANK_9PSB_PUBLIC_KEY: CREDENTIALS.publicKey,
    BANK_9PSB_PRIVATE_KEY: CREDENTIALS.privateKey,
    BANK_9PSB_NOTIFICATION_USER: CREDENTIALS.notificationUser,
    BANK_9PSB_NOTIFICATION_PASSWORD: CREDENTIALS.notificationPassword,
    // It would ask for the payments of every account while they are measured.
    RECONCILE_INTERVAL_MINUTES: '0',
  })
  return loadContender(bench, {
    name: 'Inflow',
    load,
    server: service.pid,
    after: async () => {
      await checkRecorded(database)
      return { 's behind': await drainOutbox(database) }
    },
  })
}

/** Some other outcomes are acknowledged too, and are not what is measured. */
async function checkRecorded(database: pg.Client): Promise<void> {
  const { rows } = await database.query<{ outcome: string; cause: string }>(
    "select outcome, cause from bank_notification where outcome <> 'RECORDED' limit 1",
  )
  const [other] = rows
  if (other) throw new Error(`a notification ended as ${other.outcome}: ${other.cause}`)
}
