import { expect, test } from 'vitest'
import { createAccount, useEmbeddedService } from '../support/embedded-service.ts'

const { at, start, credentials, postmaster } = useEmbeddedService()

test('the service exits with the reason when its PostgreSQL dies, with workers too, and starts again', async () => {
  const created: unknown[] = []
  for (const WORKERS of ['1', '2']) {
    const service = await start(undefined, undefined, { WORKERS })
    created.push(await createAccount(await credentials()))
    process.kill(await postmaster(), 'SIGKILL')
    expect(await service.exited).toBe(1)
    expect(service.said()).toContain(
      `inflow: PostgreSQL ended by itself (SIGKILL): see ${at('.inflow/postgres.log')}, and start the service again\n`,
    )
  }
  const [first, second] = created as Awaited<ReturnType<typeof createAccount>>[]
  expect(second).toEqual({ replayed: 'true', body: first!.body })
})
