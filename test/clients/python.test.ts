import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { exportContract } from '../../src/cli/proto.ts'
import { failOver, publishEvents } from '../support/events.ts'
import { makeFolder, temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/free-port.ts'
import { startProcess } from '../support/process.ts'
import { runProgram, startProgram } from '../support/program.ts'
import { ADMIN_TOKEN, useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { installed } from './installed.ts'

const { grpcPython: python = '', protoc } = installed
const service = useService()
const pool = () => service.database.durablePool
const at = (name: string) => join(import.meta.dirname, 'python', name)

/** Where the code is that protoc generated from the export. */
let generated: string
beforeAll(async () => {
  if (!python || !protoc) return
  const contract = await makeFolder('contract')
  generated = await makeFolder('generated')
  await exportContract(contract, false)
  const files = readdirSync(contract, { recursive: true, encoding: 'utf8' })
  const protos = files.filter((name) => name.endsWith('.proto'))
  const plugin = execFileSync('sh', ['-c', 'command -v grpc_python_plugin'], { encoding: 'utf8' })
  const out = [`--python_out=${generated}`, `--grpc_python_out=${generated}`]
  const withPlugin = `--plugin=protoc-gen-grpc_python=${plugin.trim()}`
  execFileSync('protoc', ['-I', '.', withPlugin, ...out, ...protos], { cwd: contract })
  await rm(contract, { recursive: true })
})
afterAll(async () => {
  if (generated) await rm(generated, { recursive: true })
})

const environment = (grpcUrl = service.grpcUrl, token = ADMIN_TOKEN) => ({
  INFLOW_GRPC_URL: grpcUrl,
  INFLOW_TOKEN: token,
  PYTHONPATH: generated,
  PYTHONDONTWRITEBYTECODE: '1',
})

const publish = (count: number) => publishEvents(pool(), count)

describe.skipIf(!python || !protoc)('the clients in Python, over gRPC', () => {
  const pay = (...args: string[]) => runProgram([python, at('payments.py'), ...args], environment())

  test('open an account and record a payment, once', async () => {
    const { id } = await service.business('Acme')
    const first = await pay(id, 'order-1', 'ada@example.com', 'SESSION-PYTHON-1')
    expect(first).toMatchObject({ code: 0, stderr: '' })
    const [, account] =
      /^(account \d{10} Acme\/Ada Obi\n)payment RECORD_OUTCOME_RECORDED 150050\n$/.exec(
        first.stdout,
      ) ?? []
    expect(account).toBeDefined()
    expect(await pay(id, 'order-1', 'ada@example.com', 'SESSION-PYTHON-1')).toEqual({
      ...first,
      stdout: `${account}payment RECORD_OUTCOME_DUPLICATE 150050\n`,
    })
  })

  test('decode the details of errors', async () => {
    const { id } = await service.business()
    const invalid = await pay(id, 'order-1', 'ada', 'SESSION-PYTHON-2')
    expect(invalid).toMatchObject({ code: 1, stdout: '' })
    expect(invalid.stderr).toMatch(
      /^error INVALID_ARGUMENT .+\nreason validation_failed\nfield email must be a valid e-mail address .+\n$/,
    )
    const unknown = await pay('biz_unknown', 'order-1', 'ada@example.com', 'SESSION-PYTHON-3')
    expect(unknown.stderr).toMatch(/^error NOT_FOUND .+\nreason not_found\n$/)
    const command = [python, at('payments.py'), id, 'order-1', 'ada@example.com', 'SESSION-4']
    const refused = await runProgram(command, environment(service.grpcUrl, 'wrong'))
    expect(refused.stderr).toMatch(/^error UNAUTHENTICATED .+\nreason unauthorized\n$/)
  })

  /** Starts the follower. @returns it, and the ids that it stored so far, in order */
  function follow(file: string, grpcUrl: string) {
    const program = startProgram([python, at('follow.py'), file], environment(grpcUrl))
    return { ...program, stored: () => storedIn(file) }
  }

  function storedIn(file: string): string[] {
    const database = new DatabaseSync(file, { readOnly: true })
    try {
      const rows = database.prepare('select id from event order by rowid').all()
      return rows.map((row) => String(row['id']))
    } finally {
      database.close()
    }
  }

  async function logged(): Promise<string[]> {
    const { rows } = await pool().query('select event_id from event_log order by position')
    return rows.map((row) => row.event_id)
  }

  /** Waits until a follower has stored the whole log. */
  const hasAll = (stored: () => string[]) =>
    waitFor(async () => expect(stored()).toEqual(await logged()))

  test('follow all events over restarts of the service and of themselves, each once', async () => {
    const { id } = await service.business()
    await pay(id, 'order-1', 'ada@example.com', 'SESSION-PYTHON-5')
    const port = await freePort()
    const start = () => startProcess({ DATABASE_URL: service.url, GRPC_PORT: port })
    let instance = await start()
    onTestFinished(() => instance.kill())
    const file = join(temporaryFolder(), 'events.db')

    const first = follow(file, instance.grpcUrl)
    await publish(100)
    await waitFor(() => expect(first.stored().length).toBeGreaterThan(20))
    await instance.kill()
    await publish(50)
    instance = await start()
    const before = first.stored().length
    await publish(200)
    await waitFor(() => expect(first.stored().length).toBeGreaterThan(before + 60))
    expect(first.stdout()).toContain('PAYMENT_NOTIFICATION')
    expect(first.stderr()).toMatch(/^interrupted: UNAVAILABLE$/m)
    // It is killed wherever it is.
    first.child.kill('SIGKILL')
    await first.exited
    const second = follow(file, instance.grpcUrl)
    await hasAll(second.stored)
  })

  test('stop when the cursor is refused, and say why and where to resume', async () => {
    const file = join(temporaryFolder(), 'events.db')
    const lost = await publish(1)
    const first = follow(file, service.grpcUrl)
    await hasAll(first.stored)
    // As after a failover to a standby that lacked the event.
    await failOver(pool(), lost)
    await publish(1)
    expect(await first.exited).toBe(1)
    expect(first.stderr()).toMatch(/^refused: stale_cursor \S+ .+$/m)
  })
})
