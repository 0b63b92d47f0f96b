import { createClient } from '@connectrpc/connect'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { IdType } from '../../gen/inflow/account/v1/account_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { type FakeBanks, startFakeBanks } from '../../src/banks/fake/start-fake-banks.ts'
import { forEachConcurrently } from '../../src/core/concurrency.ts'
import { useDatabase } from '../support/database.ts'
import { freePort } from '../support/free-port.ts'
import { grpcTransport } from '../support/grpc-client.ts'
import { openAccountOver } from '../support/opened-account.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { generator, SEED } from '../support/random.ts'
import { waitFor } from '../support/wait-for.ts'
import {
  type BankReceiver,
  type NotificationRequest,
  type Received,
  receiversOf,
} from './notification-receivers.ts'

/** For each bank, with forgeries and duplicates but without the bank's own retries. */
const NOTIFICATIONS = Number(process.env['NOTIFICATIONS'] ?? 100)
const ACCOUNTS = 20
const CONCURRENCY = 24
/** At a bank that hangs. */
const WAITING = 100

const random = generator(SEED)
const pick = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)]!

const db = useDatabase()
let banks: FakeBanks
let service: ServiceProcess
let receivers: readonly BankReceiver[]
let start: () => Promise<ServiceProcess>

beforeAll(async () => {
  const port = await freePort()
  banks = await startFakeBanks({
    port: 0,
    serviceUrl: `http://127.0.0.1:${port}`,
    // Enough to outlast a restart of the service on a busy machine.
    retryDelaysMs: Array.from({ length: 1_500 }, () => 200),
  })
  receivers = receiversOf(banks)
  const timeouts = receivers.map(({ code }) => [`BANK_${code}_TIMEOUT_MS`, '5000'])
  const settings = { ...banks.environment, ...Object.fromEntries(timeouts) }
  start = () => startProcess({ ...settings, DATABASE_URL: db.url, HTTP_PORT: port })
  service = await start()
})

afterAll(async () => {
  await service?.kill()
  await banks?.close()
})

async function openAccounts({ bank }: BankReceiver, count = ACCOUNTS): Promise<string[]> {
  const transport = grpcTransport(service.grpcUrl)
  const { business } = await createClient(BusinessService, transport).createBusiness({ name: 'B' })
  const identified = { businessId: business!.id, bank, idType: IdType.NIN, idNumber: '22222222222' }
  const opening = Array.from({ length: count }, (_, index) =>
    openAccountOver(transport, { ...identified, reference: `order-${index}` }),
  )
  return (await Promise.all(opening)).map(({ accountNumber }) => accountNumber)
}

/** Sends a request until there is a response. */
async function send({ path, headers, body }: NotificationRequest) {
  for (let attempt = 0; ; attempt++) {
    try {
      const response = await fetch(service.httpUrl + path, { method: 'POST', headers, body })
      return { status: response.status, text: await response.text() }
    } catch (error) {
      if (attempt > 3_000) throw error
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}

interface Round {
  readonly genuine: readonly Received[]
  readonly unknown: readonly Received[]
  readonly tasks: readonly (() => Promise<void>)[]
}

/** The tasks for one bank: notify each payment, in any order, among all other requests. */
function roundOf(receiver: BankReceiver, accounts: readonly string[]): Round {
  const naira = () => `${1 + Math.floor(random() * 100_000)}.${10 + Math.floor(random() * 89)}`
  const count = Math.ceil(NOTIFICATIONS * 0.68)
  const genuine = Array.from({ length: count }, (_, i) =>
    receiver.receive(pick(accounts), naira(), i),
  )
  const unknownAccount = receiver.openUnknown()
  const unknown = Array.from({ length: NOTIFICATIONS * 0.02 }, (_, i) =>
    receiver.receive(unknownAccount, naira(), i),
  )
  const all = [...genuine, ...unknown]
  const report =
    ({ notify }: Received) =>
    async () => {
      if (random() < 0.02) receiver.failRequery(Math.floor(random() * 8))
      const { acknowledged, responses } = await notify()
      expect([receiver.code, acknowledged]).toEqual([receiver.code, true])
      if (receiver.rejection)
        for (const { text } of responses) expect(text).not.toMatch(receiver.rejection)
    }
  const forge = (request: NotificationRequest) => async () => {
    expect([receiver.code, request.body, (await send(request)).status]).toEqual([
      receiver.code,
      request.body,
      401,
    ])
  }
  const alter = (request: NotificationRequest) => async () => {
    await send(request)
  }
  const sometimes = (share: number) => Array.from({ length: NOTIFICATIONS * share })
  const tasks = [
    ...all.map(report),
    ...sometimes(0.15).map(() => report(pick(all))),
    ...sometimes(0.08).map(() => forge(pick(pick(all).forged))),
    ...sometimes(0.05).flatMap(() =>
      pick(all)
        .altered.slice(0, 1 + random() * 2)
        .map(alter),
    ),
    ...receiver.ignored(pick(accounts)).flatMap((request) => [alter(request), alter(request)]),
  ]
  for (let i = tasks.length - 1; i > 0; i--) {
    const at = Math.floor(random() * (i + 1))
    ;[tasks[i], tasks[at]] = [tasks[at]!, tasks[i]!]
  }
  return { genuine, unknown, tasks }
}

const factOf = ({ session, account, kobo }: Received) => `${session} ${account} ${kobo}`

test(`${NOTIFICATIONS} notifications of each bank: records each genuine payment once`, async () => {
  const rounds: Round[] = []
  for (const receiver of receivers) rounds.push(roundOf(receiver, await openAccounts(receiver)))
  const all = rounds.reduce((sum, { tasks }) => sum + tasks.length, 0)
  let started = 0
  const work = ({ tasks }: Round) =>
    forEachConcurrently(tasks, CONCURRENCY, async (task) => {
      started += 1
      await task()
    })
  const startedAt = performance.now()
  const working = Promise.all(rounds.map(work))
  let downMs = 0
  for (const share of [0.3, 0.7]) {
    while (started < all * share) {
      await Promise.race([working, new Promise((resolve) => setTimeout(resolve, 10))])
    }
    const killedAt = performance.now()
    await service.kill()
    service = await start()
    downMs += performance.now() - killedAt
  }
  await working
  const seconds = (performance.now() - startedAt - downMs) / 1_000
  console.log(
    `${all} notifications, ${Math.round(all / seconds)} a second while the service was up`,
  )

  for (const [index, { code }] of receivers.entries()) {
    const { genuine, unknown } = rounds[index]!
    const recorded = await db.database.durablePool.query<{ fact: string; posted: string }>(
      `select concat_ws(' ', t.session_id, a.account_number, t.amount_minor) as fact,
          (select coalesce(sum(amount_minor), 0) from ledger_posting where transaction_id = t.id)
            = t.amount_minor and t.status = 'SUCCESS' as posted
        from transaction t join account a on a.id = t.account_id where t.bank = $1`,
      [code],
    )
    expect(recorded.rows.map(({ fact }) => fact).sort()).toEqual(genuine.map(factOf).sort())
    expect(recorded.rows.filter(({ posted }) => !posted)).toEqual([])
    const unmatched = await db.database.durablePool.query<{ fact: string }>(
      `select concat_ws(' ', session_id, account_number, amount_minor) as fact
        from unmatched_payment where bank = $1`,
      [code],
    )
    expect(unmatched.rows.map(({ fact }) => fact).sort()).toEqual(unknown.map(factOf).sort())
  }
})

test(`a bank that hangs with ${WAITING} notifications waiting delays no other bank and loses none of them`, async () => {
  const [receiver, another] = [receivers[0]!, receivers[2]!]
  const [accounts, others] = [await openAccounts(receiver), await openAccounts(another)]
  const waiting = Array.from({ length: WAITING }, (_, i) =>
    receiver.receive(pick(accounts), '15.50', i),
  )
  const { requests, faults } = banks['9PSB']
  const before = requests.confirm
  // More than the bank is asked until the end.
  faults.add('confirm', 'hang', 10_000)
  let ended = 0
  const notifying = Promise.all(waiting.map(({ notify }) => notify().finally(() => ended++)))
  await expect.poll(() => requests.confirm).toBeGreaterThan(before)
  const { acknowledged } = await another.receive(others[0]!, '15.50', 0).notify()
  expect(acknowledged).toBe(true)
  await waitFor(async () => expect((await fetch(`${service.httpUrl}/readyz`)).status).toBe(200))
  expect(ended).toBe(0)
  faults.clear()
  for (const delivered of await notifying) expect(delivered.acknowledged).toBe(true)
  const sessions = waiting.map(({ session }) => session)
  const { rows } = await db.database.durablePool.query(
    'select count(*)::int as count from transaction where session_id = any($1)',
    [sessions],
  )
  expect(rows).toEqual([{ count: WAITING }])
})

test.each([
  ['arrays', `${'['.repeat(32_768)}${']'.repeat(32_768)}`],
  ['objects', `${'{"data":'.repeat(6_000)}1${'}'.repeat(6_000)}`],
  ['an amount', `{"data":{"amount":${'['.repeat(30_000)}${']'.repeat(30_000)}},"sign":"x"}`],
  ['many fields', `{${Array.from({ length: 5_000 }, (_, i) => `"f${i}":1`)},"sign":"x"}`],
])('64 KiB of nothing but %s records no payment, from any sender', async (_name, body) => {
  for (const receiver of receivers) {
    const accounts = await openAccounts(receiver, 1)
    const { forged, altered } = receiver.receive(accounts[0]!, '15.50', 0)
    for (const request of [...forged, ...altered]) {
      // The response never asks for a retry, which could not succeed either.
      expect([200, 401]).toContain((await send({ ...request, body })).status)
    }
    const { rows } = await db.database.durablePool.query(
      `select 1 from transaction t join account a on a.id = t.account_id
        where a.account_number = $1 and a.bank = $2`,
      [accounts[0], receiver.code],
    )
    expect(rows).toEqual([])
  }
})
