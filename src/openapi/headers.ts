import type { JsonObject } from '@bufbuild/protobuf'

const text = (description: string, example: string): JsonObject => ({
  description,
  schema: { type: 'string', examples: [example] },
})

const seconds = (description: string): JsonObject => ({
  description,
  schema: { type: 'integer', minimum: 0 },
})

/** The headers of responses, by name. */
export const RESPONSE_HEADERS: Readonly<Record<string, JsonObject>> = {
  'X-Request-Id': text(
    'Id of the request, also in errors and in the log of the service. Quote it when you report an error.',
    'req_01kah6j1yhsf9h1t2b3c4d5e6f',
  ),
  'RateLimit-Limit': text(
    'How many requests of the key may come at once. Absent, like the next two, if the key has no limit.',
    '200',
  ),
  'RateLimit-Remaining': {
    description: 'How many requests may come now.',
    schema: { type: 'integer', minimum: 0 },
  },
  'RateLimit-Reset': seconds('Seconds until the limit is full again.'),
  'Retry-After': seconds('Seconds to wait before the request is sent again.'),
  'WWW-Authenticate': {
    description: 'The scheme of the credential.',
    schema: { type: 'string', const: 'Bearer' },
  },
  Allow: { description: 'The method of the path.', schema: { type: 'string', const: 'POST' } },
  'Idempotent-Replayed': {
    description:
      '`true` if the account existed: the request repeats an earlier one, whose response this is. Absent otherwise.',
    schema: { type: 'string', const: 'true' },
  },
}

/** The headers that responses with a status may have. */
export function responseHeaders(status: number): JsonObject {
  const names = ['X-Request-Id']
  // Limits are known once the key is.
  if (![401, 405, 408, 431].includes(status)) {
    names.push('RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset')
  }
  if (status === 429 || status === 503) names.push('Retry-After')
  if (status === 401) names.push('WWW-Authenticate')
  if (status === 405) names.push('Allow')
  return headerRefs(names)
}

export function headerRefs(names: readonly string[]): JsonObject {
  return Object.fromEntries(
    names.map((name) => [name, { $ref: `#/components/headers/${name}` }] as const),
  )
}
