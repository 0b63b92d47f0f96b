import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { afterAll, beforeAll, test } from 'vitest'
import { NotificationService } from '../../gen/inflow/notification/v1/notification_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import {
  ActionSchema,
  FindingSchema,
  type StatementResult,
} from '../../gen/inflow/reconciliation/v1/statement_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { enumName } from '../../src/cli/options.ts'
import { readConfig } from '../../src/config/config.ts'
import { notify, type Payee, payee } from '../notifications/scene.ts'
import { type FakePayment, useFakeBank } from '../support/fake-bank.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { pages } from '../support/pages.ts'
import { type TestService, useService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'
import { bodyOf, type Command, newWorld, type Report, step, type World } from './banks.ts'
import { connectTo } from './drive.ts'
import { answerOf, expectStories, MODEL_SECONDS } from './try-stories.ts'

const bank = useFakeBank()
const service = useService({ BANKS: 'PALMPAY=live', BANK_PALMPAY_REQUERY: 'off' }, bank.connectors)
/** The instance that trusts signatures. All calls share one connection. */
let trusting: TestService
/** The instance that asks the bank to confirm each payment. */
let asking: Instance

beforeAll(async () => {
  const ports = { HTTP_PORT: '0', GRPC_PORT: '0' }
  const config = readConfig({ BANKS: 'PALMPAY=live', ...ports }, bank.connectors())
  asking = await startInstance(service.url, config)
  const { client } = connectTo(service)
  trusting = Object.create(service, { client: { value: client } })
})

afterAll(async () => {
  await asking?.close()
})

const report: fc.Arbitrary<Report> = fc.record({
  key: fc.constantFrom('p', 'p', 'q'),
  kobo: fc.constantFrom(50_000, 50_000, 60_000),
  state: fc.constantFrom('paid', 'paid', 'paid', 'reversed'),
})

const flag = fc.boolean()
const commandOn = (report: fc.Arbitrary<Report>): fc.Arbitrary<Command> =>
  fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({
        kind: fc.constant('notify' as const),
        report,
        requery: flag,
        isGenuine: fc.constantFrom(true, true, true, true, true, true, true, false),
      }),
    },
    {
      weight: 4,
      arbitrary: fc
        .record({ isKnown: fc.constantFrom(true, true, false), report })
        .map(({ isKnown, report: truth }) => {
          return { kind: 'know' as const, key: truth.key, truth: isKnown ? truth : undefined }
        }),
    },
    { weight: 2, arbitrary: fc.constant({ kind: 'fail' as const }) },
    {
      weight: 2,
      arbitrary: fc.record({ kind: fc.constantFrom('retry' as const, 'resolve' as const), report }),
    },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('statement' as const), report }) },
  )

/** The account of a story, and its keys at the bank. */
interface Drive {
  readonly world: World
  readonly to: Payee
  readonly prefix: string
}

const atBank = ({ to, prefix }: Drive, { key, kobo, state }: Report): FakePayment => ({
  key: `${prefix}-${key}`,
  session: `${prefix}-s-${key}`,
  account: to.accountNumber,
  kobo: `${kobo}`,
  state,
})

async function execute(drive: Drive, each: Command): Promise<string> {
  switch (each.kind) {
    case 'notify': {
      const at = each.requery ? asking : trusting
      const signature = each.isGenuine ? 'genuine' : 'forged'
      const path = 'palmpay/notifications'
      return (await notify(at, atBank(drive, each.report), { path, signature })).text
    }
    case 'know': {
      const key = `${drive.prefix}-${each.key}`
      if (each.truth) bank.payments.set(key, atBank(drive, each.truth))
      else bank.payments.delete(key)
      return 'done'
    }
    case 'fail':
      bank.mishaps.set('GET payments', ['before'])
      return 'done'
    case 'statement':
      return applyRow(drive, each.report)
    case 'retry':
    case 'resolve':
      return answerOf(review(drive, { kind: each.kind, report: each.report }))
  }
}

/** Applies a statement of one row. @returns the finding and the action */
async function applyRow({ to, prefix }: Drive, { key, kobo, state }: Report): Promise<string> {
  const row = {
    sessionId: `${prefix}-s-${key}`,
    bankKey: `${prefix}-${key}`,
    accountNumber: to.accountNumber,
    amountMinor: BigInt(kobo),
    status: state === 'paid' ? TransactionStatus.SUCCESS : TransactionStatus.REVERSED,
  }
  const request = { bank: Bank.BANK_PALMPAY, rows: [row], apply: true }
  const { results } = await trusting.client(ReconciliationService).reconcile(request)
  const [{ finding, action }] = results as [StatementResult]
  return `${enumName(FindingSchema, finding)} ${enumName(ActionSchema, action)}`
}

interface Row {
  readonly id: string
  readonly state: string
  readonly outcome: string
  readonly tries: number
}

async function rowOf(drive: Drive, each: Report): Promise<Row | undefined> {
  const { rows } = await trusting.database.durablePool.query<Row>(
    `select id, state, outcome, tries from bank_notification
      where body_digest = sha256(convert_to($1, 'UTF8'))`,
    [JSON.stringify(atBank(drive, each))],
  )
  return rows[0]
}

async function review(
  drive: Drive,
  { kind, report: named }: { kind: 'retry' | 'resolve'; report: Report },
): Promise<string> {
  const client = trusting.client(NotificationService)
  const before = await rowOf(drive, named)
  const notificationId = before?.id ?? 'ntf_none'
  if (kind === 'resolve') await client.resolveNotification({ notificationId, note: 'theirs' })
  else {
    await client.retryNotification({ notificationId })
    await waitUntil(async () => (await rowOf(drive, named))!.tries > before!.tries)
  }
  return 'done'
}

/** Compares the notifications, those that wait for an operator, and what is credited. */
async function compare(drive: Drive): Promise<void> {
  const { world, to, prefix } = drive
  for (const { report: each, state, outcome, tries } of world.notifications.values()) {
    const row = await rowOf(drive, each)
    same(bodyOf(each), [row?.state, row?.outcome, row?.tries], [state, outcome, tries])
  }
  const held = [...world.notifications.values()].filter(({ state }) => state === 'MANUAL_REVIEW')
  const expected = held.map(({ report: { key, kobo } }) => `${prefix}-s-${key} ${kobo}`).toSorted()
  for (const pageSize of [0, 2]) {
    const found = await pages(async (pageToken) => {
      const request = { bank: Bank.BANK_PALMPAY, pageSize, pageToken }
      const page = await trusting.client(NotificationService).listHeldNotifications(request)
      return { items: page.notifications, next: page.nextPageToken }
    })
    const texts = found.map((each) => `${each.sessionId} ${each.amountMinor}`)
    const own = texts.filter((text) => text.startsWith(`${prefix}-`)).toSorted()
    same(`held by ${pageSize}`, own, expected)
  }
  const { businessId } = to
  const { transactions } = await trusting
    .client(TransactionService)
    .listTransactions({ businessId })
  const credited = transactions.map((each) => {
    return [each.sessionId, Number(each.amountMinor), each.status].join(' ')
  })
  const payments = [...world.payments].map(([key, { kobo, status }]) => {
    return [`${prefix}-s-${key}`, kobo, TransactionStatus[status]].join(' ')
  })
  same('payments', credited.toSorted(), payments.toSorted())
}

function same(what: string, found: unknown, expected: unknown): void {
  if (isDeepStrictEqual(found, expected)) return
  throw new Error(`${what}: ${JSON.stringify(found)}, not ${JSON.stringify(expected)}`)
}

/** Of a story: five in a row open the circuit breaker of an instance. */
const FAILURES_MAX = 3

/** Has the bank answer a requery of each instance: of a payment that it does not know. */
async function closeBreakers(drive: Drive): Promise<void> {
  const unknown = { key: 'none', kobo: 50_000, state: 'paid' } as const
  for (const requery of [true, false]) {
    const each = { kind: 'notify', report: unknown, isGenuine: true, requery } as const
    same('answer', await execute(drive, each), 'UNCONFIRMED')
  }
}

let count = 0

/** Plays a story. If it fails, the error lists all commands. */
async function play(commands: readonly Command[]): Promise<void> {
  count += 1
  const done: string[] = []
  bank.mishaps.clear()
  const to = await payee(trusting, Bank.BANK_PALMPAY)
  const drive: Drive = { world: newWorld(), to, prefix: `b${count}` }
  let failures = 0
  await closeBreakers(drive)
  try {
    for (const each of commands) {
      if (each.kind === 'fail' && ++failures > FAILURES_MAX) continue
      done.push(JSON.stringify(each))
      const expected = step(drive.world, each)
      same('answer', await execute(drive, each), expected)
    }
    await compare(drive)
  } catch (error) {
    throw new Error(`${done.join('\n')}\n${(error as Error).message}`, { cause: error })
  } finally {
    // Otherwise its retries would ask the bank during a later story.
    await trusting.database.durablePool.query(
      "update bank_notification set state = 'PROCESSED', next_try_at = null where state = 'PENDING'",
    )
  }
}

/** A story is about two or three reports, so that most commands meet what earlier ones did. */
const story = fc
  .array(report, { minLength: 2, maxLength: 3 })
  .chain((reports) =>
    fc.array(commandOn(fc.constantFrom(...reports)), { minLength: 1, maxLength: 12, size: 'max' }),
  )

test(
  'what a bank reports is credited once, and only if it is confirmed or trusted',
  async () => {
    await expectStories(story, play)
    console.log(`${count} stories`)
  },
  (MODEL_SECONDS + 300) * 1_000,
)
