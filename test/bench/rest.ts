import { createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import type { Bench } from './bench.ts'
import type { Contender } from './in-turn.ts'
import type { HttpLoadOptions } from './load/http-load.ts'
import type { LoadAnswer, LoadCommand } from './load/lanes.ts'
import { underLoad } from './load/under-load.ts'
import { startProgram } from './program.ts'
import { type ServiceProcess, startServiceProcess } from './service-process.ts'
import type { FastifyServerOptions, FastifyServerReady } from './yardstick/fastify-server.ts'

const CONNECTIONS = 64

/** A service with a business on it. */
export interface Protocol extends ServiceProcess {
  readonly businessId: string
  readonly secretKey: string
}

/** Starts the service on a database and makes a business. */
export async function openTestServer(
  bench: Bench,
  databaseUrl: string,
  environment: NodeJS.ProcessEnv = {},
): Promise<Protocol> {
  const service = await startServiceProcess(bench, databaseUrl, bench.folder, environment)
  const baseUrl = `http://${service.grpcAddress}`
  const client = createClient(BusinessService, createGrpcTransport({ baseUrl }))
  const headers = { authorization: `Bearer ${service.adminToken}` }
  const { business, secretKey } = await client.createBusiness({ name: 'Bench' }, { headers })
  return { ...service, businessId: business?.id ?? '', secretKey }
}

/** The service's REST path under load. */
export function ourRest(
  bench: Bench,
  door: Protocol,
  path: string,
  body: HttpLoadOptions['body'],
): Promise<Contender> {
  const url = `${door.httpUrl}/v2/thirdparty/${path}/`
  return underHttpLoad(bench, 'Inflow', door.pid, { url, key: door.secretKey, body })
}

/** A bare Fastify route under the same load. */
export async function bareFastify(
  bench: Bench,
  name: string,
  options: FastifyServerOptions,
  body: HttpLoadOptions['body'],
): Promise<Contender> {
  const server = await startProgram<FastifyServerReady, never, never>(
    'yardstick/fastify-server.ts',
    options,
  )
  bench.onEnd(server.stop)
  const url = `http://127.0.0.1:${server.ready.port}/`
  return underHttpLoad(bench, name, server.pid, { url, key: undefined, body })
}

async function underHttpLoad(
  bench: Bench,
  name: string,
  server: number,
  request: Pick<HttpLoadOptions, 'url' | 'key' | 'body'>,
): Promise<Contender> {
  const options: HttpLoadOptions = { ...request, connections: CONNECTIONS }
  const load = await startProgram<undefined, LoadCommand, LoadAnswer>('load/http-load.ts', options)
  bench.onEnd(load.stop)
  return underLoad(bench, { name, load, server })
}

/** One answer of a REST path, which must be a success. @returns the body's text */
export async function postOnce(door: Protocol, path: string, body: unknown): Promise<string> {
  const response = await fetch(`${door.httpUrl}/v2/thirdparty/${path}/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${door.secretKey}` },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${path}: ${response.status} ${text}`)
  return text
}
