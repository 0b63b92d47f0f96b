import type { DescFile, DescMessage, DescMethod, JsonObject } from '@bufbuild/protobuf'
import packageJson from '../../package.json' with { type: 'json' }
import { commentOf, packageCommentOf } from './comments.ts'
import { createErrorResponses, ERROR_SCHEMA } from './error-responses.ts'
import { RESPONSE_HEADERS } from './headers.ts'
import { operationOf, pathOf, SECRET_KEY, tagOf } from './operations.ts'
import { createSchemas } from './schemas.ts'
import { WEBHOOK_HEADERS, webhooksOf } from './webhooks.ts'

/** What the operations of a tag are about. */
const TAGS: Readonly<Record<string, string>> = {
  accounts: 'Virtual accounts: dedicated account numbers of your customers.',
  payments: 'Payments into virtual accounts.',
  events: 'The events that webhooks deliver, to read in order.',
  balances: 'Balances, settlements and statements.',
  webhooks: 'Endpoints that receive events, and the deliveries to them.',
}

/** The body of a webhook. */
const BODY = 'inflow.thirdparty.v2.EventBody'

/**
 * Describes the REST paths and the webhooks of the contract as OpenAPI 3.1.
 *
 * @param files with their comments
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

/** The comments of the package, of the service and of the body of webhooks. */
function introductionOf([first]: readonly DescMethod[], body: DescMessage): string {
  if (!first) throw new Error('the contract has no path')
  const files = body.file
  return [
    packageCommentOf(files),
    commentOf(first.parent),
    `## Webhooks\n\n${commentOf(body)}`,
  ].join('\n\n')
}
