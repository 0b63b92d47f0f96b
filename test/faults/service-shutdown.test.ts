import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import { findRunningEmbedded } from '../../src/postgres/embedded/embedded.ts'
import { makeCertificate, writeCertificate } from '../support/certificate.ts'
import { query } from '../support/database.ts'
import {
  createAccount,
  ENV,
  has,
  ownerOf,
  ROOT,
  useEmbeddedService,
} from '../support/embedded-service.ts'
import { WAIT_LIMIT_MS, waitFor } from '../support/wait-for.ts'
import { isAlive } from '../support/workers.ts'

/** The sandbox responds after two seconds for this phone number. */
const SLOW_PHONE = '08000000003'

const { at, run, start, credentials, postmaster } = useEmbeddedService()

async function countAccounts(): Promise<number> {
  const url = await findRunningEmbedded(at('.inflow/postgres'))
  return (await query(url!, 'select from account')).length
}

test('a start after a kill -9 replaces the orphaned database and keeps acknowledged writes; the service exits with the reason when its PostgreSQL dies, with workers too', async () => {
  const { child, exited } = await start()
  const { body } = await createAccount(await credentials())
  const orphan = await postmaster()
  child.kill('SIGKILL')
  expect(await exited).toBe('SIGKILL')
  expect(isAlive(orphan)).toBe(true)
  for (const WORKERS of ['1', '2']) {
    const next = await start(undefined, undefined, { WORKERS })
    expect(isAlive(orphan)).toBe(false)
    expect(await createAccount(await credentials())).toEqual({ replayed: 'true', body })
    process.kill(await postmaster(), 'SIGKILL')
    expect(await next.exited).toBe(1)
    expect(next.said()).toContain(
      `inflow: PostgreSQL ended by itself (SIGKILL): see ${at('.inflow/postgres.log')}, and start the service again\n`,
    )
  }
})

test.each([
  // Which signals end it is up to one function.
  ['a start', 'SIGHUP', ['src/main.ts']],
  ['a command', 'SIGINT', ['src/cli/inflow.ts', 'migrate', 'up']],
] as const)(
  'a signal during %s also stops the database',
  { retry: 5 },
  async (_name, signal, args) => {
    const [program, ...rest] = args
    const { child, exited } = run(process.execPath, [join(ROOT, program), ...rest], {
      cwd: at(''),
      env: ENV,
      stdio: 'ignore',
    })
    const early = exited.then(() => {
      throw new Error('it ended before its database was seen')
    })
    const server = await Promise.race([
      vi.waitFor(postmaster, { timeout: WAIT_LIMIT_MS, interval: 5 }),
      early,
    ])
    child.kill(signal)
    await exited
    await waitFor(() => expect(isAlive(server)).toBe(false))
  },
)

test.skipIf(!has('script'))(
  'closing the terminal completes open requests and stops service and database, also with TLS',
  // The request must end within the three seconds for which the service waits.
  { retry: 5 },
  async () => {
    const tls = writeCertificate(at('.'), makeCertificate())
    for (const env of [{}, tls]) {
      // `script` gives the command its own terminal, which closes when `script` is killed.
      const settings = { LOG_LEVEL: 'info', ...env }
      const { child } = await start('script', ['-qfec', 'npm start', '/dev/null'], settings)
      const server = await postmaster()
      const service = ownerOf(server)
      const request = env === tls ? undefined : createAccount(await credentials(), SLOW_PHONE)
      if (request) {
        await waitFor(async () => expect(await countAccounts()).toBe(1))
        // Most of the two seconds that it takes.
        await pause(1_500)
      }
      process.kill(child.pid!, 'SIGKILL')
      await request
      await waitFor(() => expect([service, server].filter(isAlive)).toEqual([]))
      expect(existsSync(at('.inflow/postgres/postmaster.pid'))).toBe(false)
    }
  },
)
