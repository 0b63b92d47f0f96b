import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'

export const GEN = join(import.meta.dirname, '../../gen')

// biome-ignore lint/suspicious/noExplicitAny: a document of JSON that the validator has checked
type Json = any

export const document: Json = JSON.parse(readFileSync(join(GEN, 'openapi.json'), 'utf8'))

const ID = 'https://inflow.test/openapi.json'
const ajv = new Ajv2020({ allErrors: true, allowUnionTypes: true, strictTypes: false })
addFormats.default(ajv)
ajv.addVocabulary(Object.keys(document))
ajv.addSchema(closed({ ...document, $id: ID }))

/** A copy in which no object may have other fields than those that are described. */
function closed(value: Json): Json {
  if (Array.isArray(value)) return value.map(closed)
  if (typeof value !== 'object' || value === null) return value
  const copy = Object.fromEntries(Object.entries(value).map(([key, each]) => [key, closed(each)]))
  const isObjectSchema = copy.type === 'object' && typeof copy.properties === 'object'
  return isObjectSchema ? { ...copy, unevaluatedProperties: false } : copy
}

/** Judges a value by the schema at a place of the document. @returns what is wrong with it */
export function faultsAt(place: readonly string[], value: unknown): string[] {
  const pointer = place.map((part) => part.replaceAll('~', '~0').replaceAll('/', '~1')).join('/')
  const validate = ajv.getSchema(`${ID}#/${pointer}`) ?? ajv.compile({ $ref: `${ID}#/${pointer}` })
  if (validate(value)) return []
  return (validate.errors ?? []).map(
    ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
  )
}

/** A response over HTTP. */
export interface HttpAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
}

/** The headers that Inflow sets itself, and that are not for browsers. */
const OWN_HEADERS =
  /^(x-request-id|ratelimit-.*|retry-after|www-authenticate|allow|idempotent-replayed)$/

/** Judges a response of a path by the document. @returns what is wrong with it */
export function faultsOfAnswer(path: string, answer: HttpAnswer): string[] {
  const { responses } = document.paths[path].post
  const { $ref } = responses[answer.status] ?? {}
  const place = $ref
    ? $ref.slice(2).split('/')
    : ['paths', path, 'post', 'responses', `${answer.status}`]
  return faultsOfResponse(place, answer)
}

/** @param place of the response in the document */
export function faultsOfResponse(place: readonly string[], answer: HttpAnswer): string[] {
  const response = place.reduce((value, part) => value?.[part], document)
  if (response === undefined) return [`${answer.status} is not documented`]
  const named = Object.keys(response.headers).map((name) => name.toLowerCase())
  const own = Object.keys(answer.headers).filter((name) => OWN_HEADERS.test(name))
  const unnamed = own.filter((name) => !named.includes(name))
  if (!own.includes('x-request-id')) unnamed.push('no x-request-id')
  const schema = [...place, 'content', 'application/json', 'schema']
  return [...unnamed, ...faultsAt(schema, JSON.parse(answer.text))]
}
