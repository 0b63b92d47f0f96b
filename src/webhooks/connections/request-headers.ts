import type { BasicAuthentication, Connection } from './connection.ts'

/**
 * The headers that a connection adds to a request, with names in lower case.
 *
 * @param accessToken if it authenticates by OAuth 2.0
 */
export function connectionHeaders(
  { headers, authentication }: Connection,
  accessToken?: string,
): Record<string, string> {
  const added = Object.fromEntries(headers.map(({ name, value }) => [name.toLowerCase(), value]))
  if (authentication?.method === 'basic') added['authorization'] = basic(authentication)
  if (accessToken !== undefined) added['authorization'] = `Bearer ${accessToken}`
  return added
}

function basic({ username, password }: Omit<BasicAuthentication, 'method'>): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
}
