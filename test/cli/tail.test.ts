import { beforeAll, expect, test } from 'vitest'
import type { Account } from '../../gen/inflow/account/v1/account_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { encodeCursor } from '../../src/events/cursor.ts'
import { readLogState } from '../../src/events/log-state.ts'
import { failOver, publishEvents } from '../support/events.ts'
import { grpcTransport } from '../support/grpc-client.ts'
import { openAccountOver } from '../support/opened-account.ts'
import { startProxy } from '../support/proxy.ts'
import { useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { callerEnv, runHere, startInflow } from './run-inflow.ts'

const service = useService()
let businessId: string
let account: Account

beforeAll(async () => {
  businessId = (await service.business()).id
  account = await openAccountOver(grpcTransport(service.grpcUrl), { businessId })
})

/** Simulates a payment and waits until its event is in the log. @returns the event */
async function pay(sessionId: string) {
  await service.client(SandboxService).simulateTransfer({
    accountNumber: account.accountNumber,
    amountMinor: 150_050n,
    sessionId,
    payerName: 'Chidi',
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

/** Starts `events tail` in its own process. */
function tail(url: string, ...args: string[]) {
  const env = callerEnv({ grpcUrl: url })
  return startInflow(['events', 'tail', ...args], { env })
}

const idOf = (line: string | undefined) => (JSON.parse(line ?? 'null') as { id: string }).id

const INTERRUPTED = /^Interrupted \([^\n]+\); resuming in \d\.\d s\.$/m

test('prints one line for each event, and exits 0 on Ctrl-C with the cursor to resume from', async () => {
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
      'from Chidi',
    ].join('  '),
  )
  running.child.kill('SIGINT')
  expect(await running.exit()).toBe(0)
  expect(running.stderr()).toBe(`To resume from here: --cursor ${event.cursor}\n`)
})

test('starts after a cursor, and prints one JSON document for each line', async () => {
  const events = [await pay('JSON-1'), await pay('JSON-2'), await pay('JSON-3')]
  const running = tail(service.grpcUrl, '--json', '--cursor', events[0]!.cursor)
  expect(idOf(await running.nextLine())).toBe(events[1]!.id)
  expect(JSON.parse((await running.nextLine()) ?? '')).toMatchObject({
    id: events[2]!.id,
    position: String(events[2]!.position),
    transaction: { amountMinor: '150050', sessionId: 'JSON-3' },
  })
})

test('resumes after a lost connection without losing or repeating events', async () => {
  const proxy = await startProxy(service.grpcUrl)
  const first = await pay('CUT-0')
  const running = tail(proxy.url, '--json', '--cursor', first.cursor)
  for (const session of ['CUT-1', 'CUT-2', 'CUT-3']) {
    const { id } = await pay(session)
    expect(idOf(await running.nextLine())).toBe(id)
    proxy.cut()
  }
  const { id } = await pay('CUT-4')
  expect(idOf(await running.nextLine())).toBe(id)
  expect(running.stderr()).toMatch(INTERRUPTED)
  running.child.kill('SIGTERM')
  expect(await running.exit()).toBe(0)
})

test('exits without an error when the reader closes the pipe', async () => {
  const { cursor } = await pay('ENOUGH-0')
  await pay('ENOUGH-1')
  const running = tail(service.grpcUrl, '--cursor', cursor)
  await running.nextLine()
  running.child.stdout?.destroy()
  await pay('ENOUGH-2')
  expect(await running.exit()).toBe(0)
  expect(running.stderr()).toBe('')
})

async function publish() {
  const [id] = await publishEvents(service.database.durablePool, 1)
  return id!
}

const REFUSED =
  /^\{"error":\{"reason":"stale_cursor",.*"details":\["resume safely with: --cursor (\S+)"\],"exit_code":1\}\}\n$/

test('tails go on in an epoch that a bump begins, and end with a safe cursor after a failover that loses events', async () => {
  const { durablePool } = service.database
  const { end, epoch } = await readLogState(durablePool)
  const first = tail(service.grpcUrl, '--json', '--cursor', encodeCursor(end))
  const before = await publish()
  expect(idOf(await first.nextLine())).toBe(before)
  const env = callerEnv(service)
  const bumped = await runHere(['events', 'epoch', 'bump', '--yes'], env)
  expect(bumped).toMatchObject({ code: 0, stdout: `Epoch ${epoch + 1}\n` })
  const lost = await publish()
  expect(idOf(await first.nextLine())).toBe(lost)
  await failOver(durablePool, [lost])
  const next = await publish()
  expect(await first.exit()).toBe(1)
  expect(first.stderr()).toMatch(REFUSED)
  const [, cursor = ''] = REFUSED.exec(first.stderr()) ?? []
  const resumed = tail(service.grpcUrl, '--json', '--cursor', cursor)
  expect(idOf(await resumed.nextLine())).toBe(next)
})
