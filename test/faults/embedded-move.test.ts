import { execFile, execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { callerEnv, runHere, verifyBooks } from '../cli/run-inflow.ts'
import { temporaryFolder } from '../support/folder.ts'
import { grpcClient, grpcTransport } from '../support/grpc-client.ts'
import { openBusinessOver } from '../support/opened-account.ts'
import { findPostgres, startPostgres } from '../support/postgres-server.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { waitFor } from '../support/wait-for.ts'

const run = promisify(execFile)
const bin = findPostgres() ?? ''

/** pg_dump refuses a server that is newer than itself. */
const EMBEDDED_VERSION = 18

function canDump(): boolean {
  const program = join(bin, 'pg_dump')
  if (!existsSync(program)) return false
  const text = execFileSync(program, ['--version'], { encoding: 'utf8' })
  return Number(/\d+/.exec(text)?.[0]) >= EMBEDDED_VERSION
}

async function start(environment: NodeJS.ProcessEnv): Promise<ServiceProcess> {
  const service = await startProcess(environment)
  onTestFinished(async () => void (await service.stop()))
  return service
}

/** Expects that a service has the account, in an epoch, and that its ledger and audit log verify. */
async function expectWhole(
  service: ServiceProcess,
  { businessId, accountNumber }: { readonly businessId: string; readonly accountNumber: string },
  epoch: number,
) {
  const { grpcUrl } = service
  const { accounts } = await grpcClient(AccountService, grpcUrl).listAccounts({ businessId })
  expect(accounts.map((each) => each.accountNumber)).toEqual([accountNumber])
  await waitFor(async () => {
    const listed = await grpcClient(EventService, grpcUrl).listEvents({ businessId, limit: 1 })
    expect(listed.epoch).toBe(epoch)
  })
  await verifyBooks(service)
}

test('a copy of the data folder of a stopped service serves what was in it; pg_dump moves it to a server of its own, where a new epoch begins', async () => {
  const folder = temporaryFolder()
  const data = join(folder, 'data')
  const service = await start({ DATA_DIR: data, MASTER_KEY: undefined })
  const account = await openBusinessOver(grpcTransport(service.grpcUrl))
  expect(await service.stop()).toBe(0)
  const copy = join(folder, 'copy')
  await run('cp', ['-RLp', data, copy])
  await rm(data, { recursive: true })
  const next = await start({ DATA_DIR: copy, MASTER_KEY: undefined })
  await expectWhole(next, account, 1)
  const env = callerEnv(next)
  const bumped = await runHere(['events', 'epoch', 'bump', '--yes'], env)
  expect([bumped.code, bumped.stderr]).toEqual([0, expect.any(String)])
  await expectWhole(next, account, 2)

  if (!canDump()) return
  const read = (name: string) => readFileSync(join(copy, name), 'utf8').trim()
  const port = read('postgres/postmaster.pid').split('\n')[3]
  const embedded = `postgres://inflow:${read('postgres.password')}@127.0.0.1:${port}/inflow`
  const dump = join(folder, 'inflow.dump')
  await run(join(bin, 'pg_dump'), ['--format=custom', `--file=${dump}`, embedded])
  expect(await next.stop()).toBe(0)
  const server = await startPostgres({ bin, folder: join(folder, 'own') })
  onTestFinished(server.stop)
  await run(join(bin, 'pg_restore'), ['--no-owner', `--dbname=${server.url}`, dump])
  const MASTER_KEY = read('master.key')
  await expectWhole(await start({ DATABASE_URL: server.url, MASTER_KEY }), account, 3)
})
