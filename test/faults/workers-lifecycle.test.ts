import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { asJson, send } from '../protocols/rest/rest.ts'
import { useDatabase } from '../support/database.ts'
import { makeFolder } from '../support/folder.ts'
import { grpcClient } from '../support/grpc-client.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { WAIT_LIMIT_MS } from '../support/wait-for.ts'
import { answeredBy, isAlive, logOf, opsPortsOf, workersOf } from '../support/workers.ts'
import { makeCertificate } from '../webhooks/sender/certificate.ts'

const WAIT = { timeout: WAIT_LIMIT_MS, interval: 50 }

const db = useDatabase(2)
let folder: string

beforeAll(async () => {
  folder = await makeFolder('lifecycle')
  const { cert, key } = makeCertificate()
  await writeFile(join(folder, 'cert.pem'), cert)
  await writeFile(join(folder, 'key.pem'), key)
})

afterAll(() => rm(folder, { recursive: true, force: true }))

async function start(workers: number, env: NodeJS.ProcessEnv = {}): Promise<ServiceProcess> {
  const settings = { DATABASE_URL: db.url, WORKERS: `${workers}`, LOG_LEVEL: 'info', ...env }
  const service = await startProcess(settings, true)
  onTestFinished(() => service.kill())
  // Standard error is collected separately.
  await vi.waitFor(() => expect(workersOf(service).size).toBe(workers), WAIT)
  return service
}

const pidsOf = (service: ServiceProcess) => [...workersOf(service).values()]

/** Creates a business, over a connection of its own. */
async function createBusiness({ grpcUrl }: ServiceProcess) {
  const businesses = grpcClient(BusinessService, grpcUrl)
  return businesses.createBusiness({ name: 'Acme' }, { timeoutMs: 10_000 })
}

const CONNECTIONS_MAX = 200

test('connections spread over the workers, each of which serves its own metrics; a port that another program shares in the same way is refused; replacements listen on the same ports after all die at once; Ctrl-C, which signals all processes, completes calls and leaves none', async () => {
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
    expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(200)
  }

  const { port } = new URL(service.httpUrl)
  const settings = { DATABASE_URL: db.url, WORKERS: '2', HTTP_PORT: port }
  await expect(startProcess(settings, true)).rejects.toThrow(`HTTP_PORT ${port} is in use`)

  const before = pidsOf(service)
  for (const pid of before) process.kill(pid, 'SIGKILL')
  const replaced = () => pidsOf(service).filter((pid) => !before.includes(pid))
  await vi.waitFor(() => expect(replaced()).toHaveLength(2), WAIT)
  // On the ports that were free at the start, of all servers.
  expect((await fetch(`${service.httpUrl}/healthz`)).status).toBe(200)
  expect((await fetch(`${service.opsUrl}/readyz`)).status).toBe(200)
  const metrics = await (await fetch(`${service.opsUrl}/metrics`)).text()
  expect(metrics).toMatch(/^inflow_connections\{server="ops"\} [1-9]/m)

  const { secretKey } = await createBusiness(service)
  const begun = Array.from({ length: 6 }, (_, index) => createSlowly(service, secretKey, index))
  await vi.waitFor(async () => {
    const { rows } = await db.database.durablePool.query(
      "select count(*)::int as count from account where merchant_reference like 'slow-%'",
    )
    expect(rows[0].count).toBe(begun.length)
  }, WAIT)
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
  const customer = { email: 'ada@example.com', firstName: 'Ada', lastName: 'Obi', bank: '9PSB' }
  return send(httpUrl, {
    path: '/v2/thirdparty/generateVirtualAccount/',
    headers: asJson(secretKey),
    body: JSON.stringify({ ...customer, reference: `slow-${index}`, phone: '08000000003' }),
  })
}

test('the service exits with the faults when no worker can be started', async () => {
  const tls = { TLS_CERT: join(folder, 'cert.pem'), TLS_KEY: join(folder, 'key.pem') }
  const service = await start(2, tls)
  const exited = new Promise((resolve) => service.child.once('exit', resolve))
  await writeFile(join(folder, 'cert.pem'), 'gone')
  const [first, second] = pidsOf(service)
  process.kill(first!, 'SIGKILL')
  // While one worker serves, failed starts of the other do not stop the service.
  await vi.waitFor(() => {
    const failed = logOf(service).filter(({ msg }) => msg.startsWith('worker ended'))
    expect(failed.length).toBeGreaterThan(5)
  }, WAIT)
  expect(service.child.exitCode).toBe(null)
  expect(isAlive(second!)).toBe(true)

  process.kill(second!, 'SIGKILL')
  expect(await exited).toBe(1)
  const line = `inflow: TLS_CERT is a file without a certificate in PEM: ${tls.TLS_CERT}\n`
  expect(service.output()).toContain(line)
})
