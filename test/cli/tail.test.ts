import { expect, test, vi } from 'vitest'
import { type CannedService, startCannedService } from './canned-service.ts'
import { startInflow } from './run-inflow.ts'

vi.setConfig({ testTimeout: 30_000 })

function tail(service: CannedService, ...args: string[]) {
  const env = { INFLOW_GRPC_URL: service.url, INFLOW_TOKEN: service.token }
  return startInflow(['events', 'tail', ...args], { env })
}

const idOf = (line: string | undefined) => (JSON.parse(line ?? 'null') as { id: string }).id

test('prints events in lines, and ends well on Ctrl-C with the place to go on', async () => {
  const service = await startCannedService()
  service.publish()
  const running = tail(service, '--from-beginning')
  expect(await running.nextLine()).toBe(
    '2026-11-20 10:00:00  biz_demo  #1  PAYMENT_NOTIFICATION  1500.50 NGN  R-ACCOUNT  SESSION-1  from Chidi\u{fffd}[2J',
  )
  running.child.kill('SIGINT')
  expect(await running.exit()).toBe(0)
  expect(running.stderr()).toBe('To go on from here: --cursor c1\n')
})

test('goes on after a cursor, and prints one JSON document a line', async () => {
  const service = await startCannedService()
  for (let i = 0; i < 3; i++) service.publish()
  const running = tail(service, '--json', '--cursor', 'c1')
  expect(idOf(await running.nextLine())).toBe('evt_2')
  expect(JSON.parse((await running.nextLine()) ?? '')).toMatchObject({
    id: 'evt_3',
    position: '3',
    transaction: { amountMinor: '150050' },
  })
})

test('resumes after a cut, losing and repeating nothing', async () => {
  const service = await startCannedService()
  service.publish()
  const running = tail(service, '--json', '--from-beginning')
  expect(idOf(await running.nextLine())).toBe('evt_1')
  service.cut()
  service.publish()
  expect(idOf(await running.nextLine())).toBe('evt_2')
  service.publish()
  expect(idOf(await running.nextLine())).toBe('evt_3')
  expect(running.stderr()).toMatch(/^Interrupted \(.+\); resuming in 0\.\d s\.$/m)
  running.child.kill('SIGTERM')
  expect(await running.exit()).toBe(0)
})

test('tries again when the service says that it is away', async () => {
  const service = await startCannedService()
  service.refuseNext('unavailable')
  service.publish()
  const running = tail(service, '--json', '--from-beginning')
  expect(idOf(await running.nextLine())).toBe('evt_1')
  expect(running.stderr()).toMatch(/^Interrupted \(Not now\)/)
})

test('ends when it is refused after a cut', async () => {
  const service = await startCannedService()
  service.publish()
  const running = tail(service, '--json', '--from-beginning')
  expect(idOf(await running.nextLine())).toBe('evt_1')
  service.refuseNext('invalid_cursor')
  service.cut()
  expect(await running.exit()).toBe(1)
  expect(running.stderr()).toMatch(/error: Not now \(invalid_cursor\)\n$/)
})

test('a cut before the first event loses none of those after the start', async () => {
  const service = await startCannedService()
  const running = tail(service, '--json')
  await vi.waitFor(() => expect(service.calls.length).toBe(1), { timeout: 10_000 })
  service.cut()
  service.publish()
  expect(idOf(await running.nextLine())).toBe('evt_1')
})

test('a reader that has seen enough ends it quietly', async () => {
  const service = await startCannedService()
  service.publish()
  const running = tail(service, '--from-beginning')
  await running.nextLine()
  running.child.stdout?.destroy()
  service.publish()
  expect(await running.exit()).toBe(0)
  expect(running.stderr()).toBe('')
})
