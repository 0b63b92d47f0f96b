import { type DescMethod, getOption, type JsonObject } from '@bufbuild/protobuf'
import { http } from '../../gen/google/api/annotations_pb.ts'
import { readPolicy } from '../auth/method-policy.ts'
import { ignoresUnknownFields } from '../server/rpc/unknown-fields.ts'
import { commentOf } from './comments.ts'
import type { ErrorResponses } from './error-responses.ts'
import { exampleOf } from './examples/examples.ts'
import { headerRefs, responseHeaders } from './headers.ts'
import type { Schemas } from './schemas.ts'

/** The name of the security scheme. */
export const SECRET_KEY = 'secretKey'

/** The path of a method, with a slash at its end; undefined: REST does not have it. */
export function pathOf(method: DescMethod): string | undefined {
  if (!method.proto.options) return undefined
  const { pattern } = getOption(method, http)
  return pattern.case === 'post' ? `${pattern.value}/` : undefined
}

/** The tag of a method: what its scopes are about, such as `payments`. */
export function tagOf(method: DescMethod): string {
  const [scope = ''] = keyPolicyOf(method).scopes
  return scope.split(':')[0] ?? ''
}

/** The operation of a method. */
export function operationOf(
  method: DescMethod,
  schemas: Schemas,
  errors: ErrorResponses,
): JsonObject {
  const { scopes, openToUnscopedKeys } = keyPolicyOf(method)
  // The responses describe the errors.
  const comment = (commentOf(method).split('Errors:')[0] ?? '').trim()
  const scope = `Needs the scope ${scopes.map((each) => `\`${each}\``).join(' or ')}`
  const unscoped = openToUnscopedKeys
    ? 'or a key without scopes.'
    : 'which keys without scopes lack.'
  const example = exampleOf(method)
  return {
    operationId: method.localName,
    tags: [tagOf(method)],
    summary: summaryOf(comment),
    description: `${comment}\n\n${scope}, ${unscoped}`,
    // Any of the scopes will do.
    security: scopes.map((each) => ({ [SECRET_KEY]: [each] })),
    requestBody: {
      required: true,
      content: json(schemas.request(method.input, !ignoresUnknownFields(method)), example.request),
    },
    responses: {
      200: {
        description: commentOf(method.output),
        headers: {
          ...responseHeaders(200),
          ...(method.name === 'GenerateVirtualAccount' && headerRefs(['Idempotent-Replayed'])),
        },
        content: json(schemas.response(method.output), example.response),
      },
      ...errors.of(method),
    },
  }
}

/** The first sentence, without its full stop. */
function summaryOf(comment: string): string {
  return (/^[\s\S]*?(?=\.(\s|$))/.exec(comment)?.[0] ?? comment).replaceAll('\n', ' ')
}

function keyPolicyOf(method: DescMethod) {
  const policy = readPolicy(method)
  if (policy.credential !== 'secret key') throw new Error(`${method} has a path, but takes no key`)
  return policy
}

function json(schema: JsonObject, example: JsonObject): JsonObject {
  return { 'application/json': { schema, example } }
}
