import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { Agent, request } from 'node:https'
import { join } from 'node:path'
import { type ConnectionOptions, connect } from 'node:tls'
import { createClient } from '@connectrpc/connect'
import { createConnectTransport, createGrpcTransport } from '@connectrpc/connect-node'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { asJson, GET_TRANSACTION } from '../protocols/rest/rest.ts'
import { captureLog } from '../support/captured-log.ts'
import { makeCertificate } from '../support/certificate.ts'
import { useDatabase } from '../support/database.ts'
import { makeFolder } from '../support/folder.ts'
import { freePort } from '../support/free-port.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { ADMIN_TOKEN, bearer } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { readOps } from './settings-of.ts'

/** A program that is run with the sample as it is, but for addresses, ports and files. */
interface Proxy {
  /** The paths of the program and of what else it needs. */
  readonly programs: readonly [string, ...string[]]
  readonly sample: string
  /** Changes what only a machine of its own has. @param folder with inflow.pem, inflow.crt and inflow.key */
  readonly adapt: (sample: string, folder: string) => string
  readonly check: (file: string) => readonly string[]
  readonly run: (file: string) => readonly string[]
  /** Whether callers of gRPC are known by their own address. */
  readonly proxyProtocol: boolean
  /** Whether it asks instances whether they are ready; else an instance is taken out by hand. */
  readonly checks: boolean
  /** Replaces some text of the sample with what the program must refuse. */
  readonly wrong: readonly [string, string]
}

const HAPROXY: Proxy = {
  programs: ['/usr/sbin/haproxy'],
  sample: 'haproxy.cfg',
  adapt: (sample, folder) =>
    `global\n  maxconn 200\n${sample.replaceAll('/etc/haproxy', folder).replace('  log global\n', '').replace('fall 2', 'fall 10')}`,
  check: (file) => ['-c', '-f', file],
  run: (file) => ['-db', '-f', file],
  proxyProtocol: true,
  checks: true,
  wrong: ['send-proxy-v2', 'send-proxy-v3'],
}

const NGINX: Proxy = {
  programs: ['/usr/sbin/nginx', '/usr/lib/nginx/modules/ngx_stream_module.so'],
  sample: 'nginx.conf',
  adapt: (sample, folder) => {
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    const paths = temporary.map((name) => `  ${name}_temp_path ${folder}/${name};\n`)
    return `daemon off;\n${sample}`
      .replace('user www-data;\n', '')
      .replaceAll(/\/etc\/nginx(?=\/inflow)|\/var\/log\/nginx|\/run(?=\/nginx.pid)/g, folder)
      .replace('http {\n', `http {\n${paths.join('')}`)
  },
  check: (file) => ['-t', '-c', file],
  run: (file) => ['-c', file],
  proxyProtocol: true,
  checks: false,
  wrong: ['least_conn', 'least_connections'],
}

const CADDY: Proxy = {
  programs: ['/usr/bin/caddy'],
  sample: 'Caddyfile',
  adapt: (sample, folder) => {
    const own = `{\n\ttls ${folder}/inflow.crt ${folder}/inflow.key\n`
    return (
      sample
        .replace('grace_period 10s\n', 'grace_period 10s\n\tadmin off\n')
        // Both instances stand still together here.
        .replace('health_interval 1s\n', 'health_interval 1s\n\t\tlb_try_duration 60s\n')
        .replace('pay.example.com {\n', `https://127.0.0.1:443 ${own}`)
        .replace('pay.example.com:50051 {\n', `https://127.0.0.1:50051 ${own}`)
    )
  },
  check: (file) => ['validate', '--config', file, '--adapter', 'caddyfile'],
  run: (file) => ['run', '--config', file, '--adapter', 'caddyfile'],
  proxyProtocol: false,
  checks: true,
  wrong: ['least_conn', 'least_connections'],
}

const db = useDatabase()
const certificate = makeCertificate()
const { log, lines: logged } = captureLog()
let key = ''

beforeAll(async () => {
  const instance = await startInstance(db.url)
  try {
    const businesses = instance.client(BusinessService)
    const { business } = await businesses.createBusiness({ name: 'Acme' })
    key = (await businesses.issueKey({ businessId: business!.id })).secretKey
  } finally {
    await instance.close()
  }
})

/** How many calls an instance has handled. */
async function servedBy({ metrics }: Instance): Promise<number> {
  const { values } = await metrics.getSingleMetric('inflow_rpc_requests_total')!.get()
  return values.reduce((sum, { value }) => sum + value, 0)
}

/** Two instances at the addresses and ports of the samples, with 127 for 10 and free ports. */
async function startPair(proxyProtocol: boolean) {
  const [httpPort, grpcPort, opsPort] = [await freePort(), await freePort(), await freePort()]
  const start = (host: string) =>
    startInstance(
      db.url,
      {
        host,
        httpPort: Number(httpPort),
        grpcPort: Number(grpcPort),
        opsPort: Number(opsPort),
        trustedProxies: ['127.0.0.1/32'],
        proxyProtocol,
      },
      log,
    )
  const instances = [await start('127.0.0.11'), await start('127.0.0.12')] as const
  return { instances, ports: { 8080: httpPort, 50051: grpcPort, 8081: opsPort } }
}

describe.each([HAPROXY, NGINX, CADDY])('$sample', (proxy) => {
  const [program] = proxy.programs
  const missing = !proxy.programs.every((path) => existsSync(path))
  let instances: readonly [Instance, Instance] | undefined
  let file = ''
  let folder = ''
  let httpsUrl = ''
  let grpcUrl = ''
  let running: ReturnType<typeof spawn> | undefined
  let output = ''
  const env = () => ({ PATH: process.env['PATH'], HOME: folder, XDG_DATA_HOME: folder })

  beforeAll(async () => {
    if (missing) return
    const pair = await startPair(proxy.proxyProtocol)
    instances = pair.instances
    folder = await makeFolder('proxy')
    const { cert, key: secret } = certificate
    writeFileSync(join(folder, 'inflow.crt'), cert)
    writeFileSync(join(folder, 'inflow.key'), secret)
    writeFileSync(join(folder, 'inflow.pem'), cert + secret)
    const [https, grpc] = [await freePort(), await freePort()]
    const { ports } = pair
    const sample = proxy
      .adapt(readOps(`proxy/${proxy.sample}`), folder)
      .replaceAll(
        /10\.0\.0\.(1[12]):(8080|50051)/g,
        (_, host, port: '8080') => `127.0.0.${host}:${ports[port]}`,
      )
      .replaceAll(/(port )8081/g, `$1${ports[8081]}`)
      .replaceAll(/(bind |listen |127\.0\.0\.1)(:?)(443|50051)\b/g, (_, before, _colon, port) =>
        before === '127.0.0.1'
          ? `${before}:${port === '443' ? https : grpc}`
          : `${before}127.0.0.1:${port === '443' ? https : grpc}`,
      )
    file = join(folder, proxy.sample)
    writeFileSync(file, sample)
    httpsUrl = `https://127.0.0.1:${https}`
    grpcUrl = `https://127.0.0.1:${grpc}`
    running = spawn(program, proxy.run(file), {
      env: env(),
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    for (const stream of [running.stdout!, running.stderr!]) {
      stream.on('data', (text) => {
        output += text
      })
    }
    await waitFor(async () => {
      expect([(await look()).status, output]).toEqual([404, expect.anything()])
    })
  })

  afterAll(async () => {
    if (running?.exitCode === null) {
      // nginx ends its own processes; the others need not wait for clients.
      running.kill(proxy === NGINX ? 'SIGTERM' : 'SIGKILL')
      await once(running, 'exit')
    }
    if (!isFirstClosed) await instances?.[0].close()
    await instances?.[1].close()
    if (folder !== '') await rm(folder, { recursive: true, force: true })
  })

  let isFirstClosed = false
  const closeFirst = async () => {
    isFirstClosed = true
    await instances![0].close()
  }

  /** Looks a payment up that does not exist. */
  const look = (token = key, localAddress = '127.0.0.1', agent?: Agent) =>
    new Promise<{ status: number }>((resolve, reject) => {
      const outgoing = request(
        httpsUrl + GET_TRANSACTION,
        {
          method: 'POST',
          headers: asJson(token),
          localAddress,
          ca: certificate.cert,
          agent: agent ?? false,
        },
        (answer) => {
          answer.resume().on('end', () => resolve({ status: answer.statusCode ?? 0 }))
        },
      )
      outgoing.on('error', reject)
      outgoing.end('{"session_id":"unknown"}')
    })

  const nodeOptions = { ca: certificate.cert }
  const connectTls = (localAddress: string) =>
    connect({
      ca: certificate.cert,
      host: '127.0.0.1',
      port: Number(new URL(grpcUrl).port),
      localAddress,
      ALPNProtocols: ['h2'],
    } as ConnectionOptions)
  const interceptors = [bearer(ADMIN_TOKEN)]

  test.skipIf(missing)('is accepted by the program, which refuses it with a mistake', () => {
    const check = (config: string) => spawnSync(program, proxy.check(config), { env: env() })
    expect(check(file)).toMatchObject({ status: 0 })
    const mistaken = join(folder, 'mistaken')
    const sample = proxy.adapt(readOps(`proxy/${proxy.sample}`), folder)
    writeFileSync(mistaken, sample.replace(...proxy.wrong))
    expect(check(mistaken).status).not.toBe(0)
  })

  test.skipIf(missing)('passes REST on, with the address of the caller', async () => {
    const wrong = `sk_test_${'0'.repeat(26)}_${'A'.repeat(43)}`
    // Both instances share this machine: the proxy may take them out for a moment.
    await waitFor(async () => expect((await look(wrong, '127.0.0.77')).status).toBe(401))
    const refused = logged.filter(({ msg }) => msg === 'call refused')
    expect(refused.at(-1)).toMatchObject({ address: '127.0.0.77' })
  })

  test.skipIf(missing)('passes gRPC on', async () => {
    const transport = createGrpcTransport({
      baseUrl: grpcUrl,
      nodeOptions: { createConnection: () => connectTls('127.0.0.78') },
      interceptors,
    })
    await createClient(BusinessService, transport).createBusiness({ name: proxy.sample })
    const { rows } = await db.database.durablePool.query(
      'select address from audit_entry where details like $1',
      [`%"${proxy.sample}"%`],
    )
    expect(rows).toEqual([{ address: proxy.proxyProtocol ? '127.0.0.78' : '127.0.0.1' }])
  })

  test.skipIf(missing).each([
    ['gRPC', () => createGrpcTransport({ baseUrl: grpcUrl, nodeOptions, interceptors })],
    [
      'Connect',
      () =>
        createConnectTransport({
          baseUrl: httpsUrl,
          httpVersion: '1.1',
          nodeOptions,
          interceptors,
        }),
    ],
  ])('passes events on as they happen, over %s', async (_, transport) => {
    const ended = new AbortController()
    onTestFinished(() => ended.abort())
    const events = createClient(EventService, transport())
    const stream = events.subscribe({}, { signal: ended.signal })[Symbol.asyncIterator]()
    expect((await stream.next()).value?.item.case).toBe('checkpoint')
  })

  test.skipIf(missing)('fails no call when an instance stops after the proxy noticed', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 8 })
    onTestFinished(() => agent.destroy())
    const [first] = instances!
    let over = false
    const statuses = new Map<number | string, number>()
    const caller = async () => {
      while (!over) {
        const answered = look(key, '127.0.0.1', agent).catch((error: Error) => {
          // A reload of nginx closes connections on which no request has arrived: clients open another.
          if (proxy.checks) throw error
          return look()
        })
        const status = await answered.then(
          (answer) => answer.status,
          (error: Error) => error.message,
        )
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
      }
    }
    const calls = Promise.all(Array.from({ length: 8 }, caller))
    const progress = async () => {
      const before = statuses.get(404) ?? 0
      await waitFor(() => expect(statuses.get(404) ?? 0).toBeGreaterThan(before + 50))
    }
    await progress()
    expect(await servedBy(first)).toBeGreaterThan(0)
    first.announceStop()
    if (!proxy.checks) {
      const down = readFileSync(file, 'utf8').replaceAll(/(server 127\.0\.0\.11:.*);/g, '$1 down;')
      writeFileSync(file, down)
      running!.kill('SIGHUP')
    }
    await waitFor(async () => {
      const before = await servedBy(first)
      await progress()
      expect(await servedBy(first)).toBe(before)
    })
    await closeFirst()
    await progress()
    over = true
    await calls
    // Both instances share this machine: if it stands still, the proxy takes both out for a moment.
    expect([...statuses.keys()].filter((status) => status !== 503)).toEqual([404])
  })
})
