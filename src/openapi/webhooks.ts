import type { DescMessage, JsonObject } from '@bufbuild/protobuf'
import { BANK_FACTS, type BankCode } from '../banks/bank.ts'
import { createTimeText } from '../core/clock.ts'
import { EVENT_KINDS, type EventKindFacts } from '../events/event-kinds.ts'
import { listEventKinds } from '../webhooks/list-event-kinds.ts'
import { isAlwaysThere, type Schemas } from './schemas.ts'

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
export const WEBHOOK_HEADERS: JsonObject = Object.fromEntries(
  Object.entries(HEADERS).map(([name, [description, example]]) => [
    name,
    { name, in: 'header', required: true, description, schema: { type: 'string' }, example },
  ]),
)

/** The webhooks by kind: those that endpoints receive. */
export function webhooksOf(body: DescMessage, schemas: Schemas): JsonObject {
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

/** The fields that webhooks of the kind have. */
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
