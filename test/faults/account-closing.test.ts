import { existsSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
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
import { isAlive } from '../support/workers.ts'
import { makeCertificate } from '../webhooks/sender/certificate.ts'

/** The sandbox answers for this telephone number after two seconds. */
const TAKES_2_S = '08000000003'

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

test('after a kill -9, the next start finds the orphaned database and all that was acknowledged', async () => {
  const { child, exited } = await start()
  const { body } = await createAccount(await credentials())
  const orphan = await postmaster()
  child.kill('SIGKILL')
  expect(await exited).toBe('SIGKILL')
  expect(isAlive(orphan)).toBe(true)
  const next = await start()
  expect(await createAccount(await credentials())).toEqual({ replayed: 'true', body })
  expect(isAlive(orphan)).toBe(false)
  next.child.kill('SIGTERM')
  expect(await next.exited).toBe(0)
}, 60_000)

test.each([
  ['a start', 'src/main.ts', []],
  ['a command', 'src/cli/inflow.ts', ['migrate', 'up']],
])(
  'a signal in the middle of %s takes the database along',
  async (_what, program, args) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      const { child, exited } = run(process.execPath, [join(ROOT, program), ...args], {
        cwd: at(''),
        env: ENV,
        stdio: 'ignore',
      })
      const server = await vi.waitFor(postmaster, { timeout: 20_000, interval: 5 })
      child.kill(signal)
      await exited
      await vi.waitFor(() => expect(isAlive(server)).toBe(false), 20_000)
      await rm(at('.inflow'), { recursive: true })
    }
  },
  60_000,
)

test.skipIf(!has('script'))(
  'closing the terminal ends the service and its database, also with TLS, and answers what it was asked',
  async () => {
    const { cert, key } = makeCertificate()
    const tls = { TLS_CERT: at('cert.pem'), TLS_KEY: at('key.pem') }
    await writeFile(tls.TLS_CERT, cert)
    await writeFile(tls.TLS_KEY, key)
    for (const env of [{}, tls]) {
      // Gives the command a terminal of its own; when it is killed, that is closed.
      const settings = { LOG_LEVEL: 'info', ...env }
      const { child } = await start('script', ['-qfec', 'npm start', '/dev/null'], settings)
      const server = await postmaster()
      const service = ownerOf(server)
      const asked = env === tls ? undefined : createAccount(await credentials(), TAKES_2_S)
      if (asked) await vi.waitFor(async () => expect(await countAccounts()).toBe(1), 20_000)
      process.kill(child.pid!, 'SIGKILL')
      await asked
      await vi.waitFor(() => expect([service, server].filter(isAlive)).toEqual([]), 20_000)
      expect(existsSync(at('.inflow/postgres/postmaster.pid'))).toBe(false)
    }
  },
  90_000,
)
