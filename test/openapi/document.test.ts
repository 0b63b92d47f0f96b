import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { JsonObject } from '@bufbuild/protobuf'
import { Validator } from '@seriousme/openapi-schema-validator'
import postman from 'openapi-to-postmanv2'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { REASONS, type Reason } from '../../src/core/errors.ts'
import { EVENT_KINDS } from '../../src/events/message.ts'
import { readErrorSections } from '../../src/openapi/error-responses.ts'
import { restPath, SERVICES } from '../../src/protobuf/contract-services.ts'
import { compileDecoder } from '../../src/server/http/gateway.ts'
import { createCheck } from '../../src/server/interceptors/validation.ts'

import { compileFindUnknown } from '../../src/server/json.ts'
import { installed } from '../clients/installed.ts'
import { document, faultsAt, GEN } from './document.ts'

const methods = SERVICES.flatMap((service) => service.methods).filter(
  (method) => restPath(method) !== undefined,
)
const pathOf = (method: (typeof methods)[number]) => `${restPath(method)}/`

describe('the document', () => {
  test('is valid OpenAPI 3.1', async () => {
    const validator = new Validator()
    expect(await validator.validate(document)).toEqual({ valid: true })
    expect(validator.version).toBe('3.1')
  })

  test('is the same in YAML', () => {
    expect(parse(readFileSync(join(GEN, 'openapi.yaml'), 'utf8'))).toEqual(document)
  })

  test('refers only to what it has, and has nothing unused', () => {
    const refs = new Set(
      [...JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, ref]) => ref),
    )
    const { securitySchemes: _, ...kinds } = document.components
    const present = Object.entries<JsonObject>(kinds).flatMap(([kind, components]) =>
      Object.keys(components).map((name) => `components/${kind}/${name}`),
    )
    // Of requests that reach no path.
    const apart = ['components/responses/Error404-unknown_path']
    apart.push('components/responses/Error405-method_not_allowed')
    expect([...refs, ...apart].sort()).toEqual([...new Set([...present, ...apart])].sort())
  })

  test('has every path, with an example that the service accepts and one that it may return', () => {
    expect(Object.keys(document.paths).sort()).toEqual(methods.map(pathOf).sort())
    const check = createCheck()
    for (const method of methods) {
      const { requestBody, responses } = document.paths[pathOf(method)].post
      const { example } = requestBody.content['application/json']
      const decoded = compileDecoder(method.input, compileFindUnknown(method))(example)
      const faults = [...(decoded.fieldFaults ?? []), ...check(method.input, decoded.message)]
      expect([method.name, faults]).toEqual([method.name, []])
      const place = ['paths', pathOf(method), 'post']
      const content = ['content', 'application/json', 'schema']
      expect(faultsAt([...place, 'requestBody', ...content], example)).toEqual([])
      const response = responses['200'].content['application/json'].example
      const wrong = faultsAt([...place, 'responses', '200', ...content], response)
      expect([method.name, wrong]).toEqual([method.name, []])
    }
  })

  test('has a webhook for every kind that endpoints receive, with an example of it', () => {
    const names = EVENT_KINDS.filter(({ type }) => type !== '').map(({ name }) => name)
    expect(Object.keys(document.webhooks)).toEqual(names)
    expect(names.length).toBeGreaterThan(8)
    for (const name of names) {
      const place = ['webhooks', name, 'post', 'requestBody', 'content', 'application/json']
      const { example } = place.reduce((value, part) => value[part], document)
      expect([name, faultsAt([...place, 'schema'], example)]).toEqual([name, []])
    }
  })

  test('has an example of each error, in every response', () => {
    for (const { code, example } of readErrorSections()) {
      expect([code, faultsAt(['components', 'schemas', 'Error'], example)]).toEqual([code, []])
    }
  })

  test('describes every field, parameter, path and header', () => {
    const undescribed: string[] = []
    const visit = (value: unknown, at: string) => {
      if (typeof value !== 'object' || value === null) return
      const isSchema = /\/properties\/[^/]+$/.test(at) && !at.includes('content/')
      if (isSchema && !('description' in value)) undescribed.push(at)
      for (const [key, each] of Object.entries(value)) visit(each, `${at}/${key}`)
    }
    visit(document.components.schemas, '')
    for (const [name, { post }] of Object.entries<Record<string, JsonObject>>(document.paths)) {
      if (!post?.['summary'] || !post['description']) undescribed.push(name)
    }
    expect(undescribed).toEqual([])
  })

  test('states the scopes of each path', () => {
    const { post } = document.paths['/v2/thirdparty/closeVirtualAccount/']
    expect(post.security).toEqual([{ secretKey: ['accounts:write'] }])
    expect(post.description).toContain('Needs the scope `accounts:write`')
  })

  test('has rules as JSON Schema, which refuse what the service refuses', () => {
    const place = ['components', 'schemas', 'GenerateVirtualAccountRequest']
    const { example } =
      document.paths['/v2/thirdparty/generateVirtualAccount/'].post.requestBody.content[
        'application/json'
      ]
    for (const wrong of [
      { reference: '' },
      { firstName: 'x'.repeat(101) },
      { firstName: 'A\nB' },
      { email: 'ada' },
      { bank: 'GTB' },
      { idNumber: '1234' },
      { expiresIn: 0 },
      { metadata: { 'a b': 'c' } },
      { allowedPayers: Array(21).fill({ name: 'Ngozi Eze' }) },
      { unknown: 1 },
      { amount: true },
    ]) {
      expect([wrong, faultsAt(place, { ...example, ...wrong }).length > 0]).toEqual([wrong, true])
    }
    expect(faultsAt(place, { ...example, amount: 2000 })).toEqual([])
  })

  test.skipIf(!installed.python)('has patterns that Python compiles', () => {
    const found = [...JSON.stringify(document).matchAll(/"pattern":("(?:[^"\\]|\\.)*")/g)]
    const patterns = `[${found.map(([, pattern]) => pattern)}]`
    const program =
      'import json, re, sys\nfor each in json.loads(sys.argv[1]): re.compile(each); print(1)'
    const compiled = execFileSync(installed.python!, ['-c', program, patterns], {
      encoding: 'utf8',
    })
    expect(compiled.trim().split('\n').length).toBe(found.length)
    expect(found.length).toBeGreaterThan(20)
  })

  test('imports into Postman', async () => {
    const result = await new Promise<unknown>((resolve, reject) => {
      const input = { type: 'string' as const, data: JSON.stringify(document) }
      postman.convert(input, {}, (error, done) => (error ? reject(error) : resolve(done)))
    })
    expect(result).toMatchObject({ result: true })
    const text = JSON.stringify(result)
    for (const method of methods) expect(text).toContain(`"${method.localName}"`)
  })
})

const sections = readErrorSections()

test('every code has a section of the catalogue, and every section a code', () => {
  expect(sections.map(({ code }) => code).sort()).toEqual((Object.keys(REASONS) as Reason[]).sort())
})

test.each(sections.map((section) => [section.code, section] as const))(
  '%s has a cause, says whether to retry, and shows a response that links to it',
  (code, { cause, retry, example }) => {
    expect(cause).toMatch(/^[A-Z`].{20,}\.$/)
    expect(retry).toMatch(/^(yes|no)[,;.]/)
    expect(example).toMatchObject({ status: false, code, doc_url: `/docs/errors#${code}` })
    expect(code.endsWith('unavailable') || code === 'rate_limited').toBe(
      retry.includes('Retry-After'),
    )
  },
)
