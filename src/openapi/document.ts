import type { DescFile, DescMessage, DescMethod, JsonObject } from '@bufbuild/protobuf'
import packageJson from '../../package.json' with { type: 'json' }
import { BANK_FACTS, type BankCode } from '../banks/bank.ts'
import { createTimeText } from '../core/clock.ts'
import { EVENT_KINDS, type EventKindFacts } from '../events/message.ts'
import { listEventKinds } from '../webhooks/list-event-kinds.ts'
import { createErrorResponses, ERROR_SCHEMA, RESPONSE_HEADERS } from './error-responses.ts'
import { operationOf, pathOf, SECRET_KEY, tagOf } from './operations.ts'
import {
  commentOf,
  createSchemas,
  isAlwaysThere,
  packageCommentOf,
  type Schemas,
} from './schemas.ts'

/** The descriptions of tags. */
const TAGS: Readonly<Record<string, string>> = {
  accounts: 'Virtual accounts: dedicated account numbers of your customers.',
  payments: 'Payments into virtual accounts.',
  events: 'The events that webhooks deliver, to read in order.',
  balances: 'Balances, settlements and statements.',
  payouts: 'Money out of the available balance: payouts and refunds.',
  webhooks: 'Endpoints that receive events, and the deliveries to them.',
}

/** The body of a webhook. */
const BODY = 'inflow.thirdparty.v2.EventBody'

/**
 * Describes the REST paths and the webhooks of the contract as OpenAPI 3.1.
 *
 * @param files the descriptors of files with their comments
 */
export function toDocument(files: readonly DescFile[]): JsonObject {
  const methods = files.flatMap((file) => file.services.flatMap((service) => service.methods))
  const served = methods.filter((method) => pathOf(method) !== undefined)
  const body = files.flatMap((file) => file.messages).find((each) => each.typeName === BODY)
  if (!body) throw new Error(`the contract has no message ${BODY}`)
  const schemas = createSchemas()
  const errors = createErrorResponses()
  const paths = served.map((method) => [
    pathOf(method),
    { post: operationOf(method, schemas, errors) },
  ])
  const webhooks = webhooksOf(body, schemas)
  return {
    openapi: '3.1.0',
    info: {
      title: 'Inflow',
      version: packageJson.version,
      description: introductionOf(served, body),
      license: { name: packageJson.license, identifier: packageJson.license },
    },
    servers: [{ url: '/', description: 'The service that serves this document.' }],
    tags: [...new Set(served.map(tagOf))].map((name) => ({ name, description: TAGS[name] ?? '' })),
    security: [{ [SECRET_KEY]: [] }],
    paths: Object.fromEntries(paths),
    webhooks,
    components: {
      schemas: { Error: ERROR_SCHEMA, ...schemas.components },
      responses: errors.components,
      headers: RESPONSE_HEADERS,
      parameters: WEBHOOK_HEADERS,
      securitySchemes: {
        [SECRET_KEY]: {
          type: 'http',
          scheme: 'bearer',
          description:
            'A secret key of a business: `sk_live_…` for live mode, `sk_test_…` for test mode. A key that was issued with scopes may call what they allow.',
        },
      },
    },
  }
}

/** The introduction: the comments of the package, the service and the body of webhooks. */
function introductionOf([first]: readonly DescMethod[], body: DescMessage): string {
  if (!first) throw new Error('the contract has no path')
  const files = body.file
  return [
    packageCommentOf(files),
    commentOf(first.parent),
    `## Webhooks\n\n${commentOf(body)}`,
  ].join('\n\n')
}

const HEADERS: Readonly<Record<string, readonly [description: string, example: string]>> = {
  'webhook-id': [
    "Id of the event, `data.event_id`: the same on every attempt, and the receiver's key to detect repeats.",
    'evt_01kah6j1yhsf9h1t2b3c4d5e6f',
  ],
  'webhook-timestamp': [
    'When this attempt was signed, in seconds since 1970-01-01 UTC. Refuse it if it is more than five minutes from your clock.',
    '1795165200',
  ],
  'webhook-signature': [
    'One signature for each active secret, with spaces between them: `v1,` and the Base64 of the HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<raw body>`.',
    'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
  ],
}

/** The parameters of every webhook: its headers. */
const WEBHOOK_HEADERS: JsonObject = Object.fromEntries(
  Object.entries(HEADERS).map(([name, [description, example]]) => [
    name,
    { name, in: 'header', required: true, description, schema: { type: 'string' }, example },
  ]),
)

/** The webhooks that endpoints receive, by kind. */
function webhooksOf(body: DescMessage, schemas: Schemas): JsonObject {
  const names = Object.entries(BANK_FACTS).map(([code, { name }]) => [code, name])
  const bankNames = Object.fromEntries(names) as Record<BankCode, string>
  const described = listEventKinds(createTimeText('Africa/Lagos'), bankNames)
  const examples = new Map(described.map(({ kind, example }) => [kind, example]))
  const webhooks = EVENT_KINDS.flatMap((kind) => {
    const example = examples.get(kind.name)
    return example ? [[kind.name, webhookOf(kind, body, example, schemas)] as const] : []
  })
  return Object.fromEntries(webhooks)
}

function webhookOf(
  kind: EventKindFacts,
  body: DescMessage,
  example: JsonObject,
  schemas: Schemas,
): JsonObject {
  const [event, data] = body.fields
  if (event === undefined || data?.message === undefined) throw new Error(`${body} has two fields`)
  return {
    post: {
      operationId: kind.name,
      summary: kind.name,
      description: kind.description,
      security: [],
      parameters: Object.keys(HEADERS).map((name) => ({
        $ref: `#/components/parameters/${name}`,
      })),
      requestBody: {
        required: true,
        content: {
          'application/json': {
            schema: {
              type: 'object',
              properties: {
                event: { ...schemas.responseField(event), const: kind.name },
                data: dataOf(kind, data.message, schemas),
              },
              required: ['event', 'data'],
            },
            example,
          },
        },
      },
      responses: RESPONSES,
    },
  }
}

const RESPONSES: JsonObject = {
  '2XX': {
    description:
      'Acknowledges the event. Respond within 15 seconds, and process it afterwards; the body is ignored.',
  },
  410: { description: 'Disables the endpoint.' },
  default: {
    description: 'Everything else, a redirect too, is a failure: the event is sent again later.',
  },
}

/** The schema of the fields in webhooks of a kind. */
function dataOf(kind: EventKindFacts, message: DescMessage, schemas: Schemas): JsonObject {
  const always = message.fields.filter(
    (field) =>
      kind.data.includes(field.name) || isAlwaysThere(field) || field.name === 'previous_sequence',
  )
  const fields = message.fields.filter(
    (field) => always.includes(field) || kind.optionalData.includes(field.name),
  )
  const properties = fields.map((field) => {
    const schema = schemas.responseField(field)
    return [field.jsonName, field.name === 'type' ? { ...schema, const: kind.type } : schema]
  })
  return {
    type: 'object',
    properties: Object.fromEntries(properties),
    required: always.map((field) => field.jsonName),
  }
}
