import { expect, test } from 'vitest'
import { encodeCursor } from '../../src/events/cursor.ts'
import { readLogState } from '../../src/events/log-state.ts'
import { failOver, sequence, writeEvents } from '../support/events.ts'
import { ADMIN_TOKEN, useService } from '../support/service.ts'
import { runHere, startInflow } from './run-inflow.ts'

const service = useService()
const env = () => ({ INFLOW_GRPC_URL: service.grpcUrl, INFLOW_TOKEN: ADMIN_TOKEN })
const currentEpoch = async () => (await readLogState(service.database.durablePool)).epoch

async function publish() {
  const [id] = await writeEvents(service.database.durablePool, 1)
  await sequence(service.database.durablePool)
  return id
}

const idOf = (line: string | undefined) => (JSON.parse(line ?? 'null') as { id: string }).id

const REFUSED =
  /^\{"error":\{"reason":"stale_cursor",.*"details":\["resume safely with: --cursor (\S+)"\],"exit_code":1\}\}\n$/

test('a bump begins an epoch, and tails go on', async () => {
  const first = await publish()
  const running = startInflow(['events', 'tail', '--json', '--from-beginning'], { env: env() })
  expect(idOf(await running.nextLine())).toBe(first)
  const before = await currentEpoch()
  const bumped = await runHere(['events', 'epoch', 'bump', '--yes'], env())
  expect(bumped).toMatchObject({ code: 0, stdout: `Epoch ${before + 1}\n` })
  expect(await currentEpoch()).toBe(before + 1)
  const next = await publish()
  expect(idOf(await running.nextLine())).toBe(next)
})

test('a failover that loses events ends tails with a cursor from which it is safe to resume', async () => {
  const { durablePool } = service.database
  const { end } = await readLogState(durablePool)
  const start = ['events', 'tail', '--json', '--cursor', encodeCursor(end)]
  let running = startInflow(start, { env: env() })
  const lost = await publish()
  expect(idOf(await running.nextLine())).toBe(lost)
  await failOver(durablePool, [lost!])
  const next = await publish()
  expect(await running.exit()).toBe(1)
  expect(running.stderr()).toMatch(REFUSED)
  const [, cursor = ''] = REFUSED.exec(running.stderr()) ?? []
  running = startInflow(['events', 'tail', '--json', '--cursor', cursor], { env: env() })
  expect(idOf(await running.nextLine())).toBe(next)
})

test('a bump prints JSON with --json', async () => {
  const before = await currentEpoch()
  const { stdout } = await runHere(['events', 'epoch', 'bump', '--yes', '--json'], env())
  expect(JSON.parse(stdout)).toEqual({ epoch: before + 1 })
})
