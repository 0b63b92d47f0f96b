import { create, type DescMethod, type JsonObject, toJson } from '@bufbuild/protobuf'
import { readPolicy } from '../auth/method-policy.ts'
import { restPath } from '../protobuf/contract-services.ts'
import { ignoresUnknownFields } from '../server/json.ts'
import { type ErrorResponses, headerRefs, responseHeaders } from './error-responses.ts'
import { RESPONSES } from './example-responses.ts'
import { commentOf, type Schemas, textIn } from './schemas.ts'

/** The name of the security scheme. */
export const SECRET_KEY = 'secretKey'

/** The path of a method, with a slash at its end; undefined: REST does not have the method. */
export function pathOf(method: DescMethod): string | undefined {
  const path = restPath(method)
  return path && `${path}/`
}

/** The tag of a method, which is the subject of its scopes, such as `payments`. */
export function tagOf(method: DescMethod): string {
  const [scope = ''] = keyPolicyOf(method).scopes
  return scope.split(':')[0] ?? ''
}

/** The methods whose responses state whether they repeat an earlier call. */
const IDEMPOTENT: ReadonlySet<string> = new Set([
  'GenerateVirtualAccount',
  'CreatePayout',
  'RefundTransaction',
])

/** The operation of a method. */
export function operationOf(
  method: DescMethod,
  schemas: Schemas,
  errors: ErrorResponses,
): JsonObject {
  const { scopes, openToUnscopedKeys } = keyPolicyOf(method)
  // Errors are left out, because the responses describe them.
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
    // Any of the scopes is enough.
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
          ...(IDEMPOTENT.has(method.name) && headerRefs(['Idempotent-Replayed'])),
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

/** A request of a REST path, and the response to it. @throws Error for a method without an example */
function exampleOf(method: DescMethod) {
  const { name } = method
  const [request, data] = [REQUESTS[name], RESPONSES[name]]
  if (!request || !data) throw new Error(`${name} has no example`)
  return { request, response: responseTo(method, data) }
}

/** The response with this data, in the form of REST. The comment of its field `message` states the text. */
function responseTo({ output }: DescMethod, data: JsonObject): JsonObject {
  const { message: field } = output.field
  const message = field && textIn(commentOf(field))
  if (message === undefined) throw new Error(`${output} states no text`)
  const response = create(output, { status: true, message, data })
  return toJson(output, response, { alwaysEmitImplicit: true }) as JsonObject
}

const ENDPOINT = { endpointId: 'ep_01kah6j1yhsf9h1t2b3c4d5e6f' }
const SESSION = { session_id: '090286261120100000123456789012' }

/** A request of each REST path, by the name of its rpc. */
const REQUESTS: Readonly<Record<string, JsonObject>> = {
  GenerateVirtualAccount: {
    reference: 'order-1',
    email: 'ada@example.com',
    phone: '08012345678',
    firstName: 'Ada',
    lastName: 'Obi',
    bank: '9PSB',
    amount: '2000.00',
    expiresIn: 3600,
    metadata: { order: '1042' },
  },
  GetTransaction: SESSION,
  GetVirtualAccount: { reference: 'order-1' },
  ListTransactions: { page_size: 50, status: 'SUCCESS', from: '2026-11-01 00:00:00' },
  AcceptPayment: SESSION,
  ReturnPayment: { ...SESSION, reason: 'The order was cancelled' },
  ListHeldPayments: { page_size: 50 },
  ListEvents: { after: 41, limit: 100, kinds: ['PAYMENT_NOTIFICATION', 'PAYMENT_REVERSED'] },
  GetBalance: {},
  UpdateVirtualAccount: { reference: 'order-1', email: 'ada.obi@example.com' },
  UpgradeVirtualAccount: { customer: 'ada@example.com', bvn: '22212345678' },
  CloseVirtualAccount: { reference: 'order-1' },
  ListVirtualAccounts: { page_size: 50, status: 'ACTIVE' },
  ListSettlements: { page_size: 50 },
  GetStatement: { from: '2026-11-01 00:00:00', to: '2026-12-01 00:00:00', page_size: 50 },
  CreateWebhook: {
    url: 'https://shop.example.com/webhooks',
    kinds: ['PAYMENT_NOTIFICATION', 'PAYMENT_REVERSED'],
    description: 'shop',
    options: { rateLimit: 20 },
  },
  ListWebhooks: {},
  UpdateWebhook: { ...ENDPOINT, enabled: true },
  DeleteWebhook: ENDPOINT,
  TestWebhook: ENDPOINT,
  ListDeliveries: { ...ENDPOINT, status: 'FAILED', page_size: 50 },
  Redeliver: { deliveryId: 'dlv_01kah6j1yhsf9h1t2b3c4d5e6f' },
  SkipDelivery: { deliveryId: 'dlv_01kah6j1yhsf9h1t2b3c4d5e6f' },
  SimulatePayment: { reference: 'order-1', amount: '1500.50', payerName: 'NGOZI EZE' },
  RequeryTransaction: { reference: 'order-1' },
  ListBanks: { page_size: 1_000 },
  ResolveAccountName: { bank_code: '000013', account_number: '0123456789' },
  CreatePayout: {
    reference: 'salary-7',
    amount: '15000.00',
    bank_code: '000013',
    account_number: '0123456789',
    account_name: 'Ngozi Eze',
    narration: 'Salary of November',
  },
  GetPayout: { reference: 'salary-7' },
  ListPayouts: { page_size: 50, status: 'PAID', from: '2026-11-01 00:00:00' },
  CancelPayout: { reference: 'salary-7' },
  RefundTransaction: {
    ...SESSION,
    amount: '500.00',
    reason: 'Two items were sold out',
    reference: 'refund-3',
  },
}
