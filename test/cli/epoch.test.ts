import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { confirm } from '../../src/cli/confirm.ts'
import { encodeCursor } from '../../src/events/cursor.ts'
import { readLogState } from '../../src/events/log-state.ts'
import { failOver, sequence, writeEvents } from '../support/events.ts'
import { ADMIN_TOKEN, useService } from '../support/service.ts'
import { inflow, runHere, startInflow } from './run-inflow.ts'

const service = useService()
const env = () => ({ INFLOW_GRPC_URL: service.grpcUrl, INFLOW_TOKEN: ADMIN_TOKEN })
const currentEpoch = async () => (await readLogState(service.database.pool)).epoch

async function publish() {
  const [id] = await writeEvents(service.database.pool, 1)
  await sequence(service.database.pool)
  return id
}

const idOf = (line: string | undefined) => (JSON.parse(line ?? 'null') as { id: string }).id

const REFUSED = /^error: [^\n]+ \(stale_cursor\)\n {2}resume safely with: --cursor (\S+)\n$/

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
  const { pool } = service.database
  const { end } = await readLogState(pool)
  const start = ['events', 'tail', '--json', '--cursor', encodeCursor(end)]
  let running = startInflow(start, { env: env() })
  const lost = await publish()
  expect(idOf(await running.nextLine())).toBe(lost)
  await failOver(pool, [lost!])
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

test('without a terminal, does nothing unless --yes is given', async () => {
  const before = await currentEpoch()
  expect(await inflow(['events', 'epoch', 'bump'], { env: env() })).toEqual({
    code: 2,
    stdout: '',
    stderr: 'error: this command needs a confirmation: add --yes\n',
  })
  expect(await currentEpoch()).toBe(before)
})

function terminal(isTTY: boolean) {
  const input = Object.assign(new PassThrough(), { isTTY })
  const output = new PassThrough()
  let written = ''
  output.on('data', (text) => {
    written += text
  })
  return { input, output, written: () => written }
}

const ASKED = { question: 'This is for good.', word: 'bump' }

test('requires the operator to type the word', async () => {
  for (const text of ['bump\n', ' bump \n']) {
    const { input, output, written } = terminal(true)
    input.write(text)
    await confirm(input, output, ASKED)
    expect(written()).toBe('This is for good.\nType "bump" to continue: ')
  }
  for (const text of ['\n', 'yes\n', 'y\n', 'bumped\n', '']) {
    const { input, output } = terminal(true)
    // An empty text stands for the end of the input: Ctrl-D.
    if (text === '') input.end()
    else input.write(text)
    await expect(confirm(input, output, ASKED)).rejects.toMatchObject({
      exitCode: 1,
      message: 'not confirmed: nothing was changed',
    })
  }
  const { input, output } = terminal(false)
  await expect(confirm(input, output, ASKED)).rejects.toMatchObject({ exitCode: 2 })
})
