import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { MethodOptions_IdempotencyLevel as Idempotency } from '@bufbuild/protobuf/wkt'
import { expect, test } from 'vitest'
import { allMethods, nameOf } from '../protocols/matrix/protocols.ts'
import { NOT_DRIVEN } from './commands.ts'

/** Paths of keys over REST are POST, so the contract cannot mark those that only read. */
const READS = /^ThirdPartyService\.(Get|List)/

/** Every rpc that may change something. */
const changes = (await allMethods()).filter(
  (method) => method.idempotency !== Idempotency.NO_SIDE_EFFECTS && !READS.test(nameOf(method)),
)

/** The drivers of the models, without their comments. */
const drivers = readdirSync(import.meta.dirname)
  .filter((name) => /(drive|banks\.test)\.ts$/.test(name))
  .map((name) => readFileSync(join(import.meta.dirname, name), 'utf8'))
  .map((text) => text.replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, ''))

/** The methods that a driver calls on a client: it imports the service, and calls a method of that name. */
const driven = new Set(
  changes
    .filter(({ parent, localName }) =>
      drivers.some(
        (text) =>
          text.includes(`/gen/${fileOf(parent.typeName)}`) && text.includes(`.${localName}(`),
      ),
    )
    .map(nameOf),
)

/** `inflow.webhook.v1.WebhookService` is in `inflow/webhook/v1/webhook_service_pb.ts`. */
function fileOf(typeName: string): string {
  const parts = typeName.split('.')
  const file = parts.pop()!.replaceAll(/(?<=[a-z])(?=[A-Z])/g, '_')
  return `${parts.join('/')}/${file.toLowerCase()}_pb`
}

test('every rpc that changes something is driven by a model, or says which test covers it', () => {
  const rest = changes.map(nameOf).filter((name) => !driven.has(name))
  expect(rest.toSorted()).toEqual(Object.keys(NOT_DRIVEN).toSorted())
})

test.each(Object.entries(NOT_DRIVEN))('%s is covered where the table says', (name, { covered }) => {
  const { localName } = changes.find((method) => nameOf(method) === name)!
  const text = readFileSync(join(import.meta.dirname, '..', covered), 'utf8')
  // By the client, or by the command line: `inflow notification retry`.
  const [verb] = /^[a-z]+/.exec(localName)!
  expect(text).toMatch(new RegExp(`\\b${localName}\\b|'${verb}'`))
})
