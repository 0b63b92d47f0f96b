import { expect, onTestFinished, test, vi } from 'vitest'
import { startInflow } from '../cli/run-inflow.ts'
import { useDatabase } from '../support/database.ts'
import { writeEvents } from '../support/events.ts'
import { freePort } from '../support/free-port.ts'
import { startInstance } from '../support/instance.ts'
import { startProcess } from '../support/process.ts'
import { WAIT_LIMIT_MS } from '../support/wait-for.ts'

const db = useDatabase()

test('a tail survives kill -9 of the service without losing or repeating events, and ends when its token is invalid', async () => {
  const port = await freePort()
  const token = 'token-of-these-two-0123456789-abcdef'
  const start = () => startProcess({ DATABASE_URL: db.url, GRPC_PORT: port, ADMIN_TOKEN: token })
  let service = await start()
  onTestFinished(() => service.kill())
  const env = { INFLOW_GRPC_URL: service.grpcUrl, INFLOW_TOKEN: token }
  const running = startInflow(['events', 'tail', '--json', '--from-beginning'], { env })
  const printed: string[] = []
  const take = async (count: number) => {
    for (let i = 0; i < count; i++) {
      printed.push((JSON.parse((await running.nextLine()) ?? 'null') as { id: string }).id)
    }
  }
  const ids = await writeEvents(db.database.durablePool, 50)
  await take(50)

  await service.kill()
  // Events that are committed while no service is running.
  ids.push(...(await writeEvents(db.database.durablePool, 50)))
  await vi.waitFor(() => expect(running.stderr()).toMatch(/^Interrupted \(connect ECONNREFUSED/m), {
    timeout: WAIT_LIMIT_MS,
  })
  service = await start()
  ids.push(...(await writeEvents(db.database.durablePool, 50)))
  await take(100)
  expect(printed).toEqual(ids)

  await service.kill()
  const another = await startInstance(db.url, { grpcPort: Number(port) })
  onTestFinished(another.close)
  expect(await running.exit()).toBe(1)
  expect(running.stderr()).toMatch(
    /^To resume from here: --cursor \S+\n\{"error":\{"reason":"unauthorized",[^\n]+\}\n$/m,
  )
})
