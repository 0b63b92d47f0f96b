import type { Authentication, Connection } from './connection.ts'

/** The headers that a connection adds to a request, with names in lower case. */
export function connectionHeaders({ headers, authentication }: Connection): Record<string, string> {
  return {
    ...Object.fromEntries(headers.map(({ name, value }) => [name.toLowerCase(), value])),
    ...(authentication && { authorization: basic(authentication) }),
  }
}

function basic({ username, password }: Authentication): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
}
