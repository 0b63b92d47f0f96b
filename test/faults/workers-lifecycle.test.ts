import { writeFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { creation } from '../protocols/rest/rest.ts'
import { makeCertificate, writeCertificate } from '../support/certificate.ts'
import { useDatabase } from '../support/database.ts'
import { temporaryFolder } from '../support/folder.ts'
import { grpcClient } from '../support/grpc-client.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { postRest } from '../support/service.ts'
import { WAIT_LIMIT_MS, waitFor } from '../support/wait-for.ts'
import { answeredBy, isAlive, logOf, opsPortsOf, workersOf } from '../support/workers.ts'

const db = useDatabase(2)

async function start(workers: number, env: NodeJS.ProcessEnv = {}): Promise<ServiceProcess> {
  const settings = { DATABASE_URL: db.url, WORKERS: `${workers}`, LOG_LEVEL: 'info', ...env }
  const service = await startProcess(settings, true)
  onTestFinished(() => service.kill())
  // Standard error is collected separately.
  await waitFor(() => expect(workersOf(service).size).toBe(workers))
  return service
}

const pidsOf = (service: ServiceProcess) => [...workersOf(service).values()]

/** Creates a business, over a connection of its own. */
async function createBusiness({ grpcUrl }: ServiceProcess) {
  const businesses = grpcClient(BusinessService, grpcUrl)
  return businesses.createBusiness({ name: 'Acme' }, { timeoutMs: WAIT_LIMIT_MS })
}

const CONNECTIONS_MAX = 200

test('connections spread over the workers, each of which serves its own metrics; a port that another program shares in the same way is refused; replacements listen on the same ports after all die at once; Ctrl-C, which signals all processes, completes calls and leaves none', {
  // The calls must end within the three seconds for which the service waits.
  retry: 5,
}, async () => {
  const service = await start(2, { OPS_PORT: '0', LOG_LEVEL: 'debug' })
  // Which worker gets a connection is up to the system.
  for (let made = 0; answeredBy(service, '/CreateBusiness').size < 2; made++) {
    expect(made).toBeLessThan(CONNECTIONS_MAX)
    await createBusiness(service)
  }
  const ports = opsPortsOf(service)
  expect(ports).toHaveLength(2)
  const series =
    'inflow_rpc_requests_total{method="/inflow.business.v1.BusinessService/CreateBusiness"'
  for (const port of ports) {
    const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
    expect(metrics).toContain(series)
    await waitFor(async () =>
      expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200),
    )
  }

  const { port } = new URL(service.httpUrl)
  const settings = { DATABASE_URL: db.url, WORKERS: '2', HTTP_PORT: port }
  await expect(startProcess(settings, true)).rejects.toThrow(`HTTP_PORT ${port} is in use`)

  const before = pidsOf(service)
  for (const pid of before) process.kill(pid, 'SIGKILL')
  const replaced = () => pidsOf(service).filter((pid) => !before.includes(pid))
  await waitFor(() => expect(replaced()).toHaveLength(2))
  // On the ports that were free at the start, of all servers.
  expect((await fetch(`${service.httpUrl}/healthz`)).status).toBe(200)
  await waitFor(async () => expect((await fetch(`${service.opsUrl}/readyz`)).status).toBe(200))
  const metrics = await (await fetch(`${service.opsUrl}/metrics`)).text()
  expect(metrics).toMatch(/^inflow_connections\{server="ops"\} [1-9]/m)

  const { business, secretKey } = await createBusiness(service)
  const begun = Array.from({ length: 6 }, (_, index) => createSlowly(service, secretKey, index))
  await waitFor(async () => {
    const { rows } = await db.database.durablePool.query(
      'select count(*)::int as count from account where business_id = $1',
      [business!.id],
    )
    expect(rows[0].count).toBe(begun.length)
  })
  // Most of the two seconds that the calls take: nearly three are left for their ends.
  await pause(1_500)
  const ended = () => service.output().match(/worker( \d+)? ended/g)?.length
  const endedBefore = ended()
  const exited = new Promise((resolve) => service.child.once('exit', resolve))
  // The workers get the signal first, and wait for the primary process.
  for (const pid of [...replaced(), service.child.pid!]) process.kill(pid, 'SIGINT')
  expect((await Promise.all(begun)).map(({ status }) => status)).toEqual(begun.map(() => 200))
  expect(await exited).toBe(0)
  expect(replaced().filter(isAlive)).toEqual([])
  expect(ended()).toBe(endedBefore)
})

/** A call that takes two seconds: so long the sandbox waits for this phone number. */
function createSlowly({ httpUrl }: ServiceProcess, secretKey: string, index: number) {
  const request = creation({ bank: '9PSB', reference: `slow-${index}`, phone: '08000000003' })
  return postRest(httpUrl, secretKey, 'generateVirtualAccount/', request)
}

test('the service exits with the faults when no worker can be started', async () => {
  const tls = writeCertificate(temporaryFolder(), makeCertificate())
  const service = await start(2, tls)
  const exited = new Promise((resolve) => service.child.once('exit', resolve))
  await writeFile(tls.TLS_CERT, 'gone')
  const [first, second] = pidsOf(service)
  process.kill(first!, 'SIGKILL')
  // While one worker serves, failed starts of the other do not stop the service.
  await waitFor(() => {
    const failed = logOf(service).filter(({ msg }) => msg.startsWith('worker ended'))
    expect(failed.length).toBeGreaterThan(5)
  })
  expect(service.child.exitCode).toBe(null)
  expect(isAlive(second!)).toBe(true)

  process.kill(second!, 'SIGKILL')
  expect(await exited).toBe(1)
  const line = `inflow: TLS_CERT is a file without a certificate in PEM: ${tls.TLS_CERT}\n`
  expect(service.output()).toContain(line)
})
