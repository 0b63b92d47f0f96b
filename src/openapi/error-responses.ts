import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DescMethod, JsonObject } from '@bufbuild/protobuf'
import { REASONS, type Reason } from '../core/errors.ts'
import { commentOf } from './schemas.ts'

/** The errors that every path may return. */
const OF_EVERY_PATH: readonly Reason[] = [
  'malformed_json',
  'malformed_request',
  'unauthorized',
  'address_not_allowed',
  'permission_denied',
  'method_not_allowed',
  'request_timeout',
  'payload_too_large',
  'unsupported_media_type',
  'validation_failed',
  'rate_limited',
  'headers_too_large',
  'internal',
  'unavailable',
]

/** The errors of requests that reach no operation. */
const OF_NO_PATH: readonly Reason[] = ['unknown_path']

/** The body of every error. */
export const ERROR_SCHEMA: JsonObject = {
  description: 'The body of every error.',
  type: 'object',
  properties: {
    status: { description: 'Always false.', const: false },
    message: { description: 'What happened, in words. It may change.', type: 'string' },
    code: {
      description: 'What happened, for programs. It never changes its meaning.',
      type: 'string',
    },
    errors: {
      description: 'The fields at fault, all at once. Absent if no field is.',
      type: 'array',
      items: {
        type: 'object',
        properties: {
          field: {
            description: 'The field, by its JSON name: `split.recipients[0].amount`.',
            type: 'string',
          },
          message: { description: 'What is wrong with it, in words.', type: 'string' },
        },
        required: ['field', 'message'],
      },
    },
    doc_url: {
      description: 'Where the code is documented, relative to the address of the service.',
      type: 'string',
      format: 'uri-reference',
    },
    request_id: { description: 'Id of the request, as in X-Request-Id.', type: 'string' },
  },
  required: ['status', 'message', 'code', 'doc_url', 'request_id'],
}

/** The responses of errors, by operation. */
export interface ErrorResponses {
  /** The responses that several operations share. */
  readonly components: JsonObject
  /** By status, in ascending order. */
  of(method: DescMethod): JsonObject
}

export function createErrorResponses(): ErrorResponses {
  const sections = new Map(readErrorSections().map((section) => [section.code, section]))
  const response = (status: number, codes: readonly Reason[], causes: Causes = new Map()) =>
    toResponse(
      status,
      codes.map((code) => sectionOf(sections, code)),
      causes,
    )
  const shared = Map.groupBy([...OF_EVERY_PATH, ...OF_NO_PATH], nameOf)
  const components = [...shared].map(([name, codes]) => {
    return [name, response(statusOf(codes[0] as Reason), codes)] as const
  })
  return {
    components: Object.fromEntries(components),
    of(method) {
      const causes = causesIn(commentOf(method))
      const own = [...causes.keys()].filter((code) => !OF_EVERY_PATH.includes(code))
      const byStatus = Map.groupBy([...OF_EVERY_PATH, ...own], statusOf)
      const entries = [...byStatus].sort(([one], [other]) => one - other)
      return Object.fromEntries(
        entries.map(([status, codes]) => {
          const isShared = codes.every((code) => !causes.get(code) && OF_EVERY_PATH.includes(code))
          const ref = { $ref: `#/components/responses/${nameOf(codes[0] as Reason)}` }
          return [`${status}`, isShared ? ref : response(status, codes, causes)]
        }),
      )
    },
  }
}

const statusOf = (code: Reason): number => REASONS[code][1]

/** The name of a response, such as `Error401`. */
const nameOf = (code: Reason): string =>
  OF_NO_PATH.includes(code) ? `Error${statusOf(code)}-${code}` : `Error${statusOf(code)}`

function sectionOf(sections: ReadonlyMap<Reason, ErrorSection>, code: Reason): ErrorSection {
  const section = sections.get(code)
  if (!section) throw new Error(`errors.md has no section ${code}`)
  return section
}

/** The codes in the comment of an rpc, each with the text that the comment adds, which may be empty. */
type Causes = ReadonlyMap<Reason, string>

/** Reads `Errors: NOT_FOUND (not_found: the account, or a payment), …`. */
function causesIn(comment: string): Causes {
  const causes = new Map<Reason, string>()
  const errors = comment.split('Errors:')[1] ?? ''
  for (const [, inside = ''] of errors.matchAll(/[A-Z_]+ \(([^)]*)\)/g)) {
    let last: Reason | undefined
    for (const part of inside.split(';')) {
      const [, code, cause] = /^\s*(\w+)(?::\s*(.*))?$/.exec(part) ?? []
      if (code !== undefined && Object.hasOwn(REASONS, code)) {
        last = code as Reason
        causes.set(last, cause ?? '')
      } else if (last) {
        // The semicolon belongs to the cause.
        causes.set(last, `${causes.get(last)};${part}`)
      }
    }
  }
  return causes
}

function toResponse(status: number, sections: readonly ErrorSection[], causes: Causes): JsonObject {
  const texts = sections.map(({ code, cause, retry }) => {
    const own = causes.get(code)
    return `- \`${code}\`: ${own ? `${own}.` : cause} Retry: ${retry}`
  })
  const codes = sections.map(({ code }) => code)
  return {
    description: texts.join('\n'),
    headers: responseHeaders(status),
    content: {
      'application/json': {
        schema: { $ref: '#/components/schemas/Error', properties: { code: { enum: codes } } },
        examples: Object.fromEntries(
          sections.map(({ code, example }) => [code, { value: example }]),
        ),
      },
    },
  }
}

/** The section about a code in the catalogue of errors. */
interface ErrorSection {
  readonly code: Reason
  /** The cause, as Markdown. */
  readonly cause: string
  /** Whether to retry, as Markdown. */
  readonly retry: string
  /** A response with the code. */
  readonly example: JsonObject
}

const FILE = join(import.meta.dirname, '../docs/errors.md')

/** Reads the sections of `src/docs/errors.md`, in their order. */
export function readErrorSections(): ErrorSection[] {
  const [, ...sections] = readFileSync(FILE, 'utf8').split(/^## /m)
  return sections.map(readSection)
}

/** `code`, the line of its statuses, the cause, the line about retries, and the example. */
const SECTION =
  /^(\w+)\n\nHTTP (\d{3}), gRPC ([A-Z_]+)\.\s+([\s\S]+?)\n\n\*\*Retry:\*\* ([\s\S]+?)\n\n```json\n([\s\S]+?)```\s*$/

function readSection(text: string): ErrorSection {
  const [, code = '', status, grpcCode, cause = '', retry = '', example = ''] =
    SECTION.exec(text) ?? []
  if (!Object.hasOwn(REASONS, code)) throw new Error(`errors.md: no section: ${text.slice(0, 60)}`)
  const reason = code as Reason
  const [expectedCode, expectedStatus] = REASONS[reason]
  if (grpcCode !== expectedCode || status !== `${expectedStatus}`) {
    throw new Error(`errors.md: ${code} is HTTP ${expectedStatus}, gRPC ${expectedCode}`)
  }
  return {
    code: reason,
    cause: oneLine(cause),
    retry: oneLine(retry),
    example: JSON.parse(example),
  }
}

const oneLine = (text: string) => text.replaceAll('\n', ' ').trim()

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
  // The limit is known only after the key is authenticated.
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
