import type { DescMethod } from '@bufbuild/protobuf'
import { beforeAll, expect, test } from 'vitest'
import { readPolicy } from '../../../src/auth/method-policy.ts'
import { restPath, SERVICES } from '../../../src/protobuf/contract-services.ts'
import { compileFindUnknown } from '../../../src/server/json.ts'
import { ADMIN_TOKEN, useSharedService } from '../../support/service.ts'
import { data, openByKey, type ScopedBusiness, scopedBusiness } from '../../thirdparty/scene.ts'
import { framed } from '../grpc/http2-frames.ts'
import { pathOf } from '../matrix/protocols.ts'

const service = useSharedService()

let keys: ScopedBusiness

beforeAll(async () => {
  keys = await scopedBusiness(service)
})

/** Callers may send these more than they know, as they always could. */
const IGNORING = [
  'generateVirtualAccount',
  'getVirtualAccount',
  'upgradeVirtualAccount',
  'getTransaction',
  'getBalance',
]

const rest: Post = async ({ method }, key, body) => {
  const answer = await service.post(`${method.localName}/`, key, body)
  return answer.body.errors ?? []
}

/** As another program would: bytes of JSON, in the frame of a stream where there is one. */
const connectJson: Post = async ({ method, path }, key, body) => {
  const json = Buffer.from(JSON.stringify(body))
  const streams = method.methodKind !== 'unary'
  const response = await fetch(`${service.httpUrl}${path}`, {
    method: 'POST',
    headers: {
      'content-type': `application/${streams ? 'connect+' : ''}json`,
      authorization: `Bearer ${key}`,
    },
    body: streams ? framed(json) : json,
  })
  // Frames of a stream: five bytes, and then JSON.
  const first = (await response.body?.getReader().read())?.value ?? new Uint8Array()
  const text = Buffer.from(first.subarray(streams ? 5 : 0)).toString()
  const answer = text.startsWith('{') ? JSON.parse(text) : {}
  const { details = [] } = (streams ? answer.error : answer) ?? {}
  return details.flatMap(({ debug }: { debug?: { fieldViolations?: Violation[] } }) =>
    (debug?.fieldViolations ?? []).map(({ field, description: message }) => ({ field, message })),
  )
}

interface Violation {
  readonly field: string
  readonly description: string
}

type Post = (
  to: { readonly method: DescMethod; readonly path: string },
  key: string,
  body: unknown,
) => Promise<readonly { readonly field: string; readonly message: string }[]>

const METHODS = SERVICES.flatMap((each) => each.methods)
const CALLS = METHODS.flatMap((method) => {
  const to = { method, path: pathOf(method) }
  const overConnect = [to.path, 'Connect', connectJson, to] as const
  if (restPath(method) === undefined) return [overConnect]
  return [overConnect, [to.path, 'REST', rest, to] as const]
})

const ignores = ({ localName, parent }: DescMethod) =>
  parent.name === 'ThirdPartyService' && IGNORING.includes(localName)
const UNKNOWN = {
  field: 'surname',
  message: expect.stringMatching(/^is not a field of this request; /),
}

test('every method refuses unknown fields by name, but for five', () => {
  for (const method of METHODS) {
    const faults = compileFindUnknown(method)({ surname: 'Obi' })
    expect([method.name, faults]).toEqual([method.name, ignores(method) ? [] : [UNKNOWN]])
  }
})

// A stream, methods of keys and of tokens.
const SOME = CALLS.filter(([path]) =>
  /\/(Subscribe|ListTransactions|UpdateVirtualAccount|GetVirtualAccount|GetBusiness)$/.test(path),
)
test.each(SOME)('%s does over %s', async (_path, _protocol, post, to) => {
  const key = readPolicy(to.method).credential === 'secret key' ? keys.test : ADMIN_TOKEN
  const faults = await post(to, key, { surname: 'Obi' })
  const found = faults.filter(({ field }) => field === 'surname')
  expect(found).toEqual(ignores(to.method) ? [] : [UNKNOWN])
})

test('a request without fields says that it has none', async () => {
  const { test: key } = await scopedBusiness(service)
  const { body } = await service.post('listWebhooks/', key, { status: 'ENABLED' })
  const message = 'is not a field of this request; it has none'
  expect(body.errors).toEqual([{ field: 'status', message }])
})

test.each([
  [
    'updateVirtualAccount',
    { split: { recipient: [] } },
    'split.recipient',
    'recipients, feeBearer',
  ],
  // Also where unknown fields of the request itself are ignored.
  [
    'generateVirtualAccount',
    { split: { recipients: [{ businessID: 'biz_1' }] } },
    'split.recipients[0].businessID',
    'businessId, percentage, amount',
  ],
])('an object inside a request of %s refuses them too', async (name, request, field, known) => {
  const calls = CALLS.filter(([path]) =>
    path.toLowerCase().endsWith(`thirdpartyservice/${name.toLowerCase()}`),
  )
  expect(calls.length).toBe(2)
  for (const [, , post, to] of calls) {
    const message = `is not a field of this object; known: ${known}`
    expect(await post(to, keys.test, { reference: 'x', ...request })).toContainEqual({
      field,
      message,
    })
  }
})

test.each<[string, object, string]>([
  ['CreateWebhook', { description: 'a\ud800' }, 'description'],
  ['GenerateVirtualAccount', { metadata: { order: 'a\udfff' } }, 'metadata'],
  [
    'GenerateVirtualAccount',
    { allowedPayers: [{ name: 'ADA' }, { name: '\ud83d' }] },
    'allowedPayers[1].name',
  ],
  ['RecordPayments', { payments: [{}, { narration: '\ud800' }] }, 'payments[1].narration'],
])(
  'half of a surrogate pair in a request of %s names its field: %j',
  async (name, request, field) => {
    const calls = CALLS.filter(([path]) => path.endsWith(`/${name}`))
    expect(calls.length).toBeGreaterThan(0)
    for (const [, protocol, post, to] of calls) {
      const key = readPolicy(to.method).credential === 'secret key' ? keys.test : ADMIN_TOKEN
      const faults = await post(to, key, request)
      const at = faults.filter((each) => each.field.split(/[.[]/)[0] === field.split(/[.[]/)[0])
      const message = expect.stringMatching(/half of a surrogate pair|printable/)
      expect([protocol, at]).toEqual([
        protocol,
        [{ field: expect.stringContaining(field), message }],
      ])
    }
  },
)

test('one of several authentication methods is given, not two', async () => {
  const { test: key } = await scopedBusiness(service)
  const authentication = {
    basic: { username: 'a', password: 'b' },
    oauth2: { tokenUrl: 'https://example.com/', clientId: 'a', clientSecret: 'b' },
  }
  const request = { url: 'https://example.com/', options: { authentication } }
  const { body } = await service.post('createWebhook/', key, request)
  expect(body.errors).toEqual([
    { field: 'options.authentication.oauth2', message: 'must not be given together with basic' },
  ])
})

test('fields may be written as in responses', async () => {
  const { test: key } = await scopedBusiness(service)
  await openByKey(service, key)
  await openByKey(service, key, { reference: 'second' })
  const first = await data(service, key, 'listVirtualAccounts', { page_size: 1 })
  const request = { pageSize: 1, page_token: first.next_page_token }
  const second = await data(service, key, 'listVirtualAccounts', request)
  expect([first.accounts, second.accounts].map(({ length }) => length)).toEqual([1, 1])
  expect(second.accounts).not.toEqual(first.accounts)
})
