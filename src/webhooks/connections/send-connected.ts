import type { Clock } from '../../core/clock.ts'
import type { Destination } from '../sender/endpoint-pools.ts'
import { failed, type HttpClient, type Outcome } from '../sender/http-client.ts'
import { createAccessTokens } from './access-tokens.ts'
import type { Connection } from './connection.ts'
import { connectionHeaders } from './request-headers.ts'

/** Posts a request with what its connection adds. The headers of the signature come last: they win. */
export type SendConnected = (
  connection: Connection,
  to: Omit<Destination, 'certificate'>,
  signed: Record<string, string>,
  body: Buffer,
) => Promise<Outcome>

const UNAUTHORIZED = 401

export function createConnectedSender(httpClient: HttpClient, clock: Clock): SendConnected {
  const tokens = createAccessTokens(httpClient, clock)
  return async (connection, to, signed, body) => {
    const { authentication, certificate } = connection
    const post = (token?: string): Promise<Outcome> => {
      const headers = { ...connectionHeaders(connection, token), ...signed }
      return httpClient.post(certificate ? { ...to, certificate } : to, headers, body)
    }
    if (authentication?.method !== 'oauth2') return post()
    const first = await tokens.find(to.endpointId, authentication)
    if ('error' in first) return failed(first.error)
    const outcome = await post(first.token)
    if (outcome.status !== UNAUTHORIZED) return outcome
    // Once: a receiver that refuses a new token as well refuses the delivery.
    tokens.forget(to.endpointId, first.token)
    const second = await tokens.find(to.endpointId, authentication)
    if ('error' in second) return failed(second.error)
    return second.token === first.token ? outcome : post(second.token)
  }
}
