import { beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { startProxy } from '../client/proxy.ts'
import { sequence, writeEvents } from '../support/events.ts'
import { startInstance } from '../support/instance.ts'
import { ADMIN_TOKEN, useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { startInflow } from './run-inflow.ts'

const service = useService()
let businessId: string
let account: { number: string; reference: string }

beforeAll(async () => {
  businessId = (await service.business()).id
  const response = await service.client(AccountService).createAccount({
    businessId,
    reference: 'order-1',
    bank: Bank.BANK_PROVIDUS,
    firstName: 'Ada',
    lastName: 'Obi',
    email: 'ada@example.com',
    phone: '08012345678',
  })
  account = {
    number: response.account!.accountNumber,
    reference: response.account!.reference,
  }
})

/** A payment arrives, and its event is in the log. @returns the event */
async function pay(sessionId: string) {
  await service.client(SandboxService).simulateTransfer({
    accountNumber: account.number,
    amountMinor: 150_050n,
    sessionId,
    payerName: 'Chidi\u001b[2J',
  })
  return waitFor(async () => {
    const { events } = await service.client(EventService).listEvents({ businessId, limit: 500 })
    const event = events.find(({ payload }) => {
      return payload.case === 'transaction' && payload.value.sessionId === sessionId
    })
    expect(event).toBeDefined()
    return event!
  })
}

/** `events tail` in a process of its own. */
function tail(url: string, ...args: string[]) {
  const env = { INFLOW_GRPC_URL: url, INFLOW_TOKEN: ADMIN_TOKEN }
  return startInflow(['events', 'tail', ...args], { env })
}

const idOf = (line: string | undefined) => (JSON.parse(line ?? 'null') as { id: string }).id

const INTERRUPTED = /^Interrupted \([^\n]+\); resuming in \d\.\d s\.$/m

test('prints events in lines, and ends well on Ctrl-C with the place to go on', async () => {
  const event = await pay('LINE-1')
  const filters = ['--kind', 'PAYMENT_NOTIFICATION', '--business', businessId]
  const running = tail(service.grpcUrl, '--from-beginning', ...filters)
  const at = new Date(Number(event.occurredAt!.seconds) * 1000).toISOString()
  expect(await running.nextLine()).toBe(
    [
      at.slice(0, 19).replace('T', ' '),
      businessId,
      '#2',
      'PAYMENT_NOTIFICATION',
      '1500.50 NGN',
      account.reference,
      'LINE-1',
      'from Chidi\u{fffd}[2J',
    ].join('  '),
  )
  running.child.kill('SIGINT')
  expect(await running.exit()).toBe(0)
  expect(running.stderr()).toBe(`To go on from here: --cursor ${event.cursor}\n`)
})

test('goes on after a cursor, and prints one JSON document a line', async () => {
  const events = [await pay('JSON-1'), await pay('JSON-2'), await pay('JSON-3')]
  const running = tail(service.grpcUrl, '--json', '--cursor', events[0]!.cursor)
  expect(idOf(await running.nextLine())).toBe(events[1]!.id)
  expect(JSON.parse((await running.nextLine()) ?? '')).toMatchObject({
    id: events[2]!.id,
    position: String(events[2]!.position),
    transaction: { amountMinor: '150050', sessionId: 'JSON-3' },
  })
})

test('resumes after a cut, losing and repeating nothing', async () => {
  const way = await startProxy(new URL(service.grpcUrl).host)
  const first = await pay('CUT-0')
  const running = tail(way.url, '--json', '--cursor', first.cursor)
  for (const session of ['CUT-1', 'CUT-2', 'CUT-3']) {
    const { id } = await pay(session)
    expect(idOf(await running.nextLine())).toBe(id)
    way.cut()
  }
  const { id } = await pay('CUT-4')
  expect(idOf(await running.nextLine())).toBe(id)
  expect(running.stderr()).toMatch(INTERRUPTED)
  running.child.kill('SIGTERM')
  expect(await running.exit()).toBe(0)
})

test('a cut before the first event loses none of those after the start', async () => {
  const instance = await startInstance(service.url)
  onTestFinished(instance.close)
  const way = await startProxy(new URL(instance.grpcUrl).host)
  const running = tail(way.url, '--json')
  await waitFor(async () => {
    const metrics = await (await fetch(`${instance.httpUrl}/metrics`)).text()
    expect(metrics).toMatch(/^inflow_event_subscribers_waiting 1$/m)
  })
  // The checkpoint has left the instance; it is here once nothing more comes.
  await waitFor(() => expect(way.bytes()).toBeGreaterThan(100))
  way.cut()
  const { id } = await pay('EARLY-1')
  expect(idOf(await running.nextLine())).toBe(id)
  expect(running.stderr()).toMatch(INTERRUPTED)
})

test('tries again when the service says that it is away', async () => {
  const database = new URL(service.url)
  const wire = await startProxy(database.host)
  database.host = wire.address
  const instance = await startInstance(database.href)
  onTestFinished(instance.close)
  const { id, cursor } = await pay('AWAY-1')
  await wire.block()
  const running = tail(instance.grpcUrl, '--json', '--from-beginning')
  await vi.waitFor(() => expect(running.stderr()).toMatch(INTERRUPTED), { timeout: 10_000 })
  await wire.unblock()
  let line = await running.nextLine()
  while (idOf(line) !== id) line = await running.nextLine()
  running.child.kill('SIGINT')
  expect(await running.exit()).toBe(0)
  expect(running.stderr()).toContain(`--cursor ${cursor}\n`)
})

test('a reader that has seen enough ends it quietly', async () => {
  const { cursor } = await pay('ENOUGH-0')
  await pay('ENOUGH-1')
  const running = tail(service.grpcUrl, '--cursor', cursor)
  await running.nextLine()
  running.child.stdout?.destroy()
  await pay('ENOUGH-2')
  expect(await running.exit()).toBe(0)
  expect(running.stderr()).toBe('')
})

test('a slow reader holds the stream back, and gets everything in the end', async () => {
  const way = await startProxy(new URL(service.grpcUrl).host)
  const { cursor } = await pay('SLOW-0')
  const ids = await writeEvents(service.database.pool, 8_000)
  await sequence(service.database.pool)
  const running = tail(way.url, '--json', '--cursor', cursor)
  expect(idOf(await running.nextLine())).toBe(ids[0])
  // What was read ahead is what fits into pipes and windows, until no more comes.
  let bytes = -1
  await vi.waitFor(
    () => {
      const before = bytes
      bytes = way.bytes()
      expect(bytes).toBe(before)
    },
    { interval: 200, timeout: 10_000 },
  )
  expect(bytes).toBeLessThan(500_000)
  for (const id of ids.slice(1)) expect(idOf(await running.nextLine())).toBe(id)
  expect(way.bytes()).toBeGreaterThan(1_000_000)
})
