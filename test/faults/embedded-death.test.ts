import { expect, test } from 'vitest'
import { createAccount, useEmbeddedService } from '../support/embedded-service.ts'

const { at, start, credentials, postmaster } = useEmbeddedService()

test.each(['1', '2'])(
  'with WORKERS=%s the service exits with the reason when its PostgreSQL dies, and starts again',
  async (WORKERS) => {
    const service = await start(undefined, undefined, { WORKERS })
    const { body } = await createAccount(await credentials())
    process.kill(await postmaster(), 'SIGKILL')
    expect(await service.exited).toBe(1)
    expect(service.said()).toContain(
      `inflow: PostgreSQL ended by itself (SIGKILL): see ${at('.inflow/postgres.log')}, and start the service again\n`,
    )
    const next = await start(undefined, undefined, { WORKERS })
    expect(await createAccount(await credentials())).toEqual({ replayed: 'true', body })
    next.child.kill('SIGTERM')
    expect(await next.exited).toBe(0)
  },
  180_000,
)
