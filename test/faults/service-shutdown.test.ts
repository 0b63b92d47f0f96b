import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Client } from 'pg'
import { expect, test, vi } from 'vitest'
import { findRunningEmbedded } from '../../src/postgres/embedded/embedded.ts'
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
import { makeCertificate } from '../webhooks/sender/certificate.ts'

/** The sandbox responds after two seconds for this phone number. */
const SLOW_PHONE = '08000000003'

const { at, run, start, credentials, postmaster } = useEmbeddedService()

async function countAccounts(): Promise<number> {
  const url = await findRunningEmbedded(at('.inflow/postgres'))
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query('select from account')).rowCount ?? 0
  } finally {
    await client.end()
  }
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
] as const)('a signal during %s also stops the database', async (_name, signal, args) => {
  const [program, ...rest] = args
  const { child, exited } = run(process.execPath, [join(ROOT, program), ...rest], {
    ...{ cwd: at(''), env: ENV, stdio: 'ignore' },
  })
  const server = await vi.waitFor(postmaster, { timeout: WAIT_LIMIT_MS, interval: 5 })
  child.kill(signal)
  await exited
  await waitFor(() => expect(isAlive(server)).toBe(false))
})

test.skipIf(!has('script'))(
  'closing the terminal completes open requests and stops service and database, also with TLS',
  async () => {
    const { cert, key } = makeCertificate()
    const tls = { TLS_CERT: at('cert.pem'), TLS_KEY: at('key.pem') }
    await writeFile(tls.TLS_CERT, cert)
    await writeFile(tls.TLS_KEY, key)
    for (const env of [{}, tls]) {
      // `script` gives the command its own terminal, which closes when `script` is killed.
      const settings = { LOG_LEVEL: 'info', ...env }
      const { child } = await start('script', ['-qfec', 'npm start', '/dev/null'], settings)
      const server = await postmaster()
      const service = ownerOf(server)
      const request = env === tls ? undefined : createAccount(await credentials(), SLOW_PHONE)
      if (request) await waitFor(async () => expect(await countAccounts()).toBe(1))
      process.kill(child.pid!, 'SIGKILL')
      await request
      await waitFor(() => expect([service, server].filter(isAlive)).toEqual([]))
      expect(existsSync(at('.inflow/postgres/postmaster.pid'))).toBe(false)
    }
  },
  90_000,
)
