import { connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { Agent, request } from 'undici'
import { expect, onTestFinished, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { useDatabase } from '../support/database.ts'
import { grpcClient } from '../support/grpc-client.ts'
import { servesGrpc } from '../support/grpc-health.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { waitFor, waitUntil } from '../support/wait-for.ts'
import { logOf } from '../support/workers.ts'
import { readyz } from './scene.ts'

const db = useDatabase(2)

async function start(env: NodeJS.ProcessEnv): Promise<ServiceProcess> {
  const settings = { DATABASE_URL: db.url, LOG_LEVEL: 'info', ...env }
  const service = await startProcess(settings, true)
  onTestFinished(() => service.kill())
  return service
}

const exitOf = ({ child }: ServiceProcess) =>
  new Promise<number | null>((resolve) => child.once('exit', resolve))

function lineOf(service: ServiceProcess, text: string) {
  const line = logOf(service).find(({ msg }) => msg === text)
  expect(line, text).toBeDefined()
  return line
}

/** Repeats a signal until the log has a line: signals within a second count as one. */
async function signalUntil(service: ServiceProcess, text: string): Promise<void> {
  await waitUntil(() => {
    if (logOf(service).some(({ msg }) => msg === text)) return true
    if (service.child.exitCode !== null) throw new Error(`it ended without "${text}"`)
    service.child.kill('SIGTERM')
    return false
  })
}

test.each([1, 2])(
  'SHUTDOWN_DELAY_SECONDS: not ready at once, calls are served meanwhile, a second signal ends the wait (WORKERS=%s)',
  async (workers) => {
    const service = await start({ WORKERS: `${workers}`, SHUTDOWN_DELAY_SECONDS: '300' })
    const exited = exitOf(service)
    const dispatcher = new Agent({ connections: 1 })
    onTestFinished(() => dispatcher.destroy())
    const healthz = async () => {
      const { statusCode, headers, body } = await request(`${service.httpUrl}/healthz`, {
        dispatcher,
      })
      await body.text()
      return { statusCode, connection: headers['connection'] }
    }
    expect(await healthz()).toEqual({ statusCode: 200, connection: 'keep-alive' })
    const businesses = grpcClient(BusinessService, service.grpcUrl)
    await businesses.createBusiness({ name: 'Before' })
    const stream = grpcClient(EventService, service.grpcUrl)
      .subscribe({ start: { case: 'beginning', value: true } })
      [Symbol.asyncIterator]()
    await stream.next()

    service.child.kill('SIGTERM')
    await waitFor(async () => {
      expect(await readyz(service)).toEqual({
        code: 503,
        body: { status: 'not ready', reasons: ['the service is stopping'] },
      })
      expect(await servesGrpc(service.grpcUrl)).toBe(false)
    })
    // On kept connections and on new ones.
    expect(await healthz()).toEqual({ statusCode: 200, connection: 'close' })
    expect(await healthz()).toEqual({ statusCode: 200, connection: 'close' })
    await businesses.createBusiness({ name: 'Meanwhile' })
    await grpcClient(BusinessService, service.grpcUrl).createBusiness({ name: 'New connection' })

    // The same signal within a second counts once; a third one would cut what is in progress.
    await pause(1_100)
    service.child.kill('SIGTERM')
    await waitFor(() => lineOf(service, 'another signal: stopping without further waits'))
    // The stream ends with a status of its own, not with a broken connection.
    let item = await stream.next()
    while (item.done !== true) item = await stream.next()
    expect(await exited).toBe(0)
    expect(lineOf(service, 'stopped')).toMatchObject({ reason: 'SIGTERM', exit_code: 0 })
    expect(logOf(service).filter(({ msg }) => msg === 'servers closed')).toHaveLength(workers)
    expect(lineOf(service, 'servers closed')).toMatchObject({ http_cut: 0, grpc_cut: 0 })
  },
)

// The second signal must come within the three seconds for which the service waits.
test('a signal while requests are in progress waits for them, and another one cuts them', {
  retry: 5,
}, async () => {
  const service = await start({})
  const exited = exitOf(service)
  const { port } = new URL(service.httpUrl)
  const socket = connect(Number(port), '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  let response = ''
  const closed = new Promise((resolve) => socket.once('close', resolve))
  socket.on('error', () => undefined)
  socket.on('data', (bytes) => {
    response += bytes
  })
  // A request whose body does not arrive.
  socket.write(
    'POST /v2/thirdparty/getTransaction/ HTTP/1.1\r\nhost: x\r\nauthorization: Bearer x\r\n' +
      'content-type: application/json\r\ncontent-length: 10\r\nexpect: 100-continue\r\n\r\n',
  )
  await waitFor(() => expect(response).toContain('100 Continue'))
  service.child.kill('SIGINT')
  await waitFor(() => lineOf(service, 'stopping'))
  await signalUntil(service, 'what was still in progress is cut')
  await closed
  expect(await exited).toBe(0)
})
