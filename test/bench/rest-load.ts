import { createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import type { Contender } from './alternate-rounds.ts'
import type { Bench } from './bench.ts'
import { startChildProcess } from './child-process.ts'
import type { HttpLoadOptions } from './load/http-load.ts'
import { loadContender } from './load/load-contender.ts'
import type { LoadCommand, LoadResult } from './load/run-callers.ts'
import { type ServiceProcess, startServiceProcess } from './service-process.ts'
import type { FastifyServerOptions, FastifyServerReady } from './yardstick/fastify-server.ts'

const CONNECTIONS = 64

/** A running service with one business. */
export interface RestService extends ServiceProcess {
  readonly businessId: string
  readonly secretKey: string
}

/** Starts the service on a database and creates a business. */
export async function openRestService(
  bench: Bench,
  databaseUrl: string,
  environment: NodeJS.ProcessEnv = {},
): Promise<RestService> {
  const service = await startServiceProcess(bench, databaseUrl, environment)
  const baseUrl = `http://${service.grpcAddress}`
  const client = createClient(BusinessService, createGrpcTransport({ baseUrl }))
  const headers = { authorization: `Bearer ${service.adminToken}` }
  const { business, secretKey } = await client.createBusiness({ name: 'Bench' }, { headers })
  return { ...service, businessId: business?.id ?? '', secretKey }
}

/** A REST path of Inflow under load. */
export function inflowRest(
  bench: Bench,
  service: RestService,
  path: string,
  body: HttpLoadOptions['body'],
): Promise<Contender> {
  const url = `${service.httpUrl}/v2/thirdparty/${path}/`
  return underHttpLoad(bench, 'Inflow', service.pid, { url, key: service.secretKey, body })
}

/** A bare Fastify route under the same load. */
export async function bareFastify(
  bench: Bench,
  name: string,
  options: FastifyServerOptions,
  body: HttpLoadOptions['body'],
): Promise<Contender> {
  const server = await startChildProcess<FastifyServerReady, never, never>(
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
  const load = await startChildProcess<undefined, LoadCommand, LoadResult>(
    'load/http-load.ts',
    options,
  )
  bench.onEnd(load.stop)
  return loadContender(bench, { name, load, server })
}

/** Calls a REST path once; throws unless it succeeds. @returns the body's text */
export async function postOnce(service: RestService, path: string, body: unknown): Promise<string> {
  const response = await fetch(`${service.httpUrl}/v2/thirdparty/${path}/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${service.secretKey}` },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${path}: ${response.status} ${text}`)
  return text
}
