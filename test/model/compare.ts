import { isDeepStrictEqual } from 'node:util'
import { expect } from 'vitest'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { HeldPaymentService } from '../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import {
  type Transaction,
  TransactionStatus,
} from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { pages } from '../support/pages.ts'
import { postRest } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { clientOf, type Drive, idOf, numberOf, run, sessionOf, show, word } from './drive.ts'
import {
  balanceOf,
  paymentsOf,
  type Report,
  repeatsStatus,
  sharesOf,
  show as showOf,
  type World,
} from './money.ts'

/** The scope of a comparison. */
interface Compared {
  /** The modes whose balances and events are compared; default: both. */
  readonly modes?: readonly boolean[]
  /** The business whose lists are also read with the smallest pages. */
  readonly paged: string
}

/** Compares all data of the service with the model: one of the possible worlds must explain them. */
export async function compare(drive: Drive, compared: Compared): Promise<void> {
  const { modes = [true, false], paged } = compared
  keepShown(drive, {
    listed: await list(drive, paged),
    unmatched: await listUnmatched(drive),
    held: await listHeld(drive),
    conflicts: await listConflicts(drive),
    balances: await readBalances(drive),
  })
  const world = drive.worlds[0]!
  for (const name of world.businesses.keys()) {
    for (const live of modes) {
      await compareStatement(drive, world, { name, live }, name === paged ? [0, 1] : [0])
      await run(drive, { kind: 'preview', business: name, live })
      await compareSettlements(drive, world, { name, live })
      await compareByKey(drive, world, { name, live })
      await compareEvents(drive, world, { name, live }, name === paged ? 3 : 100)
    }
  }
}

/** Compares the held payments and the balances: they change with nearly every command. */
export async function glance(drive: Drive): Promise<void> {
  const [held, balances] = await Promise.all([listHeld(drive), readBalances(drive)])
  keepShown(drive, { held, balances })
}

type Shown = ReturnType<typeof expectedLists>

/** Keeps the worlds that explain the shown data. */
function keepShown(drive: Drive, shown: Partial<Shown>): void {
  const expectedIn = (world: World) => {
    const expected = expectedLists(drive, world)
    return Object.fromEntries(Object.keys(shown).map((key) => [key, expected[key as keyof Shown]]))
  }
  const explaining = drive.worlds.filter((world) => isDeepStrictEqual(shown, expectedIn(world)))
  if (explaining.length === 0) expect(shown).toEqual(expectedIn(drive.worlds[0]!))
  drive.worlds = explaining
}

/** A balance. */
interface Key {
  readonly name: string
  readonly live: boolean
}

function expectedLists(drive: Drive, world: World) {
  const listed = modesOf(world).flatMap(([name, live]) =>
    paymentsOf(world, name, live)
      .map((each) => `${name} ${sessionOf(drive, each.session)} ${showOf('', each)}`)
      .toSorted(),
  )
  const isHidden = (report: Report) => {
    const recorded = world.payments.get(`live ${report.session}`)
    return (
      recorded?.amountMinor === report.amountMinor &&
      numberOf(drive, recorded.account) === numberOf(drive, report.to) &&
      repeatsStatus(recorded, report)
    )
  }
  const unmatched = world.unmatched
    .filter(({ report, resolution }) => resolution === undefined && !isHidden(report))
    .map(({ report }) => {
      const { session, to, amountMinor, status } = report
      return `${sessionOf(drive, session)} ${numberOf(drive, to)} ${amountMinor} ${status}`
    })
    .toSorted()
  const held = [...world.payments.values()]
    .filter(({ hold }) => hold === 'HELD' || hold === 'RETURN_REQUESTED')
    .map((each) => `${sessionOf(drive, each.session)} ${showOf('', each)}`)
    .toSorted()
  const conflicts = world.conflicts
    .filter(({ isResolved }) => !isResolved)
    .map(({ payment, to, amountMinor, status }) => {
      return `${sessionOf(drive, payment.slice(5))} ${numberOf(drive, to)} ${amountMinor} ${status}`
    })
    .toSorted()
  const balances = modesOf(world).map(([name, live]) => balanceOf(world, name, live))
  return { listed, unmatched, held, conflicts, balances }
}

const modesOf = (world: World) =>
  [...world.businesses.keys()].flatMap((name) => [[name, true] as const, [name, false] as const])

/** All transactions of each business and mode. Every page size must give the same list. */
async function list(drive: Drive, paged: string): Promise<string[]> {
  const all: string[] = []
  for (const [name, live] of modesOf(drive.worlds[0]!)) {
    const lists: Transaction[][] = []
    for (const pageSize of name === paged ? [0, 1, 2] : [0]) {
      lists.push(
        await pages(async (pageToken) => {
          const request = { businessId: idOf(drive, name), live, pageSize, pageToken }
          const page = await clientOf(drive, TransactionService).listTransactions(request)
          return { items: page.transactions, next: page.nextPageToken }
        }),
      )
    }
    const [whole, ...others] = lists.map((each) => each.map(({ id }) => id))
    for (const other of others) expect(other).toEqual(whole)
    const lines = lists[0]!.map((each) => `${name} ${each.sessionId} ${show(drive, '', each)}`)
    all.push(...lines.toSorted())
  }
  return all
}

/** The held payments of all businesses, in two modes. */
async function listHeld(drive: Drive): Promise<string[]> {
  const lists = await Promise.all(
    modesOf(drive.worlds[0]!).map(([name, live]) =>
      pages(async (pageToken) => {
        const request = { businessId: idOf(drive, name), live, pageSize: 1, pageToken }
        const page = await clientOf(drive, HeldPaymentService).listHeldPayments(request)
        return { items: page.transactions, next: page.nextPageToken }
      }),
    ),
  )
  return lists
    .flat()
    .map((each) => `${each.sessionId} ${show(drive, '', each)}`)
    .toSorted()
}

/** The open conflicts: others than those of this run are of earlier ones. */
async function listConflicts(drive: Drive): Promise<string[]> {
  const found = await pages(async (pageToken) => {
    // Those of earlier runs are listed too.
    const request = { pageSize: 50, pageToken }
    const page = await clientOf(drive, ReconciliationService).listPaymentConflicts(request)
    return { items: page.conflicts, next: page.nextPageToken }
  })
  return found
    .filter(({ sessionId }) => sessionId.startsWith(`${drive.prefix}-`))
    .map(({ sessionId, accountNumber, amountMinor, status }) => {
      return `${sessionId} ${accountNumber} ${amountMinor} ${word(TransactionStatus, status)}`
    })
    .toSorted()
}

async function listUnmatched(drive: Drive): Promise<string[]> {
  const { rows } = await drive.durablePool.query<{ status: string; id: string }>(
    'select id, status from unmatched_payment where session_id like $1',
    [`${drive.prefix}-%`],
  )
  const statuses = new Map(rows.map(({ id, status }) => [id, status]))
  const found = await pages(async (pageToken) => {
    const request = { pageSize: 50, pageToken }
    const page = await clientOf(drive, ReconciliationService).listUnmatchedPayments(request)
    return { items: page.payments, next: page.nextPageToken }
  })
  return found
    .filter(({ sessionId }) => sessionId.startsWith(`${drive.prefix}-`))
    .map(({ id, sessionId, accountNumber, amountMinor }) => {
      return `${sessionId} ${accountNumber} ${amountMinor} ${statuses.get(id)}`
    })
    .toSorted()
}

function readBalances(drive: Drive) {
  return Promise.all(
    modesOf(drive.worlds[0]!).map(async ([name, live]) => {
      const key = { businessId: idOf(drive, name), live }
      return fieldsOf((await clientOf(drive, SettlementService).getBalance(key)).balance)
    }),
  )
}

const fieldsOf = (balance: ReturnType<typeof balanceOf> | undefined) => {
  const { pendingMinor, availableMinor, feesMinor } = balance!
  return { pendingMinor, availableMinor, feesMinor }
}

/** The statement ends with the balance, whatever the size of its pages. */
async function compareStatement(
  drive: Drive,
  world: World,
  { name, live }: Key,
  pageSizes: readonly number[],
) {
  const client = clientOf(drive, SettlementService)
  const key = { businessId: idOf(drive, name), live }
  const expected = balanceOf(world, name, live)
  // A statement shows an event once it has its number.
  await waitFor(async () => {
    for (const pageSize of pageSizes) {
      let last: unknown
      await pages(async (pageToken) => {
        const page = await client.listEntries({ ...key, pageSize, pageToken })
        last = fieldsOf(page.closingBalance)
        return { items: page.entries, next: page.nextPageToken }
      })
      expect(last).toEqual(expected)
    }
  })
}

/** The settlements add up to the settled payments. */
async function compareSettlements(drive: Drive, world: World, { name, live }: Key) {
  const settlements = await pages(async (pageToken) => {
    const request = { businessId: idOf(drive, name), live, pageSize: 1, pageToken }
    const page = await clientOf(drive, SettlementService).listSettlements(request)
    return { items: page.settlements, next: page.nextPageToken }
  })
  const settled = paymentsOf(world, name, live).filter((each) => each.settled && !each.imported)
  const total = { count: 0n, gross: 0n, fees: 0n, splits: 0n }
  for (const each of settlements) {
    total.count += BigInt(each.transactionCount)
    total.gross += each.grossMinor
    total.fees += each.feesMinor
    total.splits += each.splitsMinor
  }
  const expected = { count: 0n, gross: 0n, fees: 0n, splits: 0n }
  for (const each of settled) {
    expected.count += 1n
    expected.gross += each.amountMinor
    expected.fees += each.feeMinor
    for (const share of sharesOf(each)) expected.splits += share.amountMinor
  }
  expect(total).toEqual(expected)
}

/** Each payment by the key of its business and mode, and by another key, which finds its own or none. */
async function compareByKey(drive: Drive, world: World, { name, live }: Key) {
  const own = { name, live }
  for (const [index, payment] of paymentsOf(world, name, live).entries()) {
    const body = { session_id: sessionOf(drive, payment.session) }
    const [otherName, otherLive] = modesOf(world)[index % modesOf(world).length]!
    for (const key of [own, { name: otherName, live: otherLive }]) {
      const found = paymentsOf(world, key.name, key.live).find(
        ({ session }) => session === payment.session,
      )
      const { status, data } = await post(drive, keyOf(drive, key), body, 'getTransaction')
      expect([key, status]).toEqual([key, found ? 200 : 404])
      if (found === undefined) continue
      expect(data).toMatchObject({
        status: found.status,
        is_settled: found.settled,
        amount: Number(found.amountMinor) / 100,
        session_id: body.session_id,
        nuban: numberOf(drive, found.account),
        reference: drive.accounts.get(found.account)!.reference,
      })
    }
  }
}

const keyOf = ({ businesses }: Drive, { name, live }: Key) => {
  const { liveKey, testKey } = businesses.get(name)!
  return live ? liveKey : testKey
}

async function post<Data>(drive: Drive, key: string, body: object, path: string) {
  drive.calls += 1
  const { httpUrl } = drive.instances[drive.calls % drive.instances.length]!
  const answer = await postRest(httpUrl, key, `${path}/`, body)
  return { status: answer.status, data: answer.body.data as Data }
}

interface PaymentEvent {
  readonly event: string
  readonly data: { readonly sequence: number; readonly transaction_ref?: string }
}

interface EventPage {
  readonly events: readonly PaymentEvent[]
  readonly has_more: boolean
  readonly next_after: number
}

/** The events of a business and mode: numbered without a gap, and those of each payment in their order. */
async function compareEvents(drive: Drive, world: World, { name, live }: Key, limit: number) {
  const key = keyOf(drive, { name, live })
  const expected = paymentsOf(world, name, live)
    .map(({ session, events }) => [sessionOf(drive, session), ...events].join(' '))
    .toSorted()
  await waitFor(async () => {
    const events: PaymentEvent[] = []
    for (let after = 0; ; ) {
      const { data } = await post<EventPage>(drive, key, { after, limit }, 'listEvents')
      events.push(...data.events)
      if (!data.has_more) break
      after = data.next_after
    }
    const first = drive.hasArchived ? (events[0]?.data.sequence ?? 1) : 1
    expect(events.map(({ data }) => data.sequence)).toEqual(events.map((_, index) => first + index))
    const byPayment = Map.groupBy(
      events.filter(({ data }) => data.transaction_ref !== undefined),
      ({ data }) => data.transaction_ref as string,
    )
    const found = [...byPayment].map(([session, each]) =>
      [session, ...each.map(({ event }) => event)].join(' '),
    )
    const withEvents = expected.filter((line) => line.includes(' '))
    if (!drive.hasArchived) expect(found.toSorted()).toEqual(withEvents)
    else for (const line of found) expect(withEvents.some((each) => isEndOf(line, each))).toBe(true)
  })
}

/** Whether the events of a payment are the last of those that it had. */
function isEndOf(line: string, whole: string): boolean {
  const [session = '', ...kinds] = line.split(' ')
  return whole.startsWith(`${session} `) && whole.endsWith(` ${kinds.join(' ')}`)
}
