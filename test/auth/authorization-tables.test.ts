import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { getOption } from '@bufbuild/protobuf'
import { expect, test } from 'vitest'
import { Credential, policy } from '../../gen/inflow/auth/v1/policy_pb.ts'
import { replaceTables } from '../../proto/authorization-tables.ts'
import { KEY_SCOPES } from '../../src/auth/caller.ts'
import { restPath, SERVICES } from '../../src/protobuf/contract-services.ts'

const services = SERVICES
const document = readFileSync(join(import.meta.dirname, '../../src/docs/authorization.md'), 'utf8')

/** A token and a key may have scopes of the same name. */
const [scopesOfTokens = '', scopesOfKeys = ''] = document.split('| scope of a key |')

/** The cells of the row that begins with a text, in a part of the document. */
function cellsOf(part: string, first: string): string[] {
  const found = part.split('\n').filter((line) => line.startsWith(`| ${first} |`))
  expect(found, first).toHaveLength(1)
  return found[0]!
    .slice(1, -1)
    .split('|')
    .map((cell) => cell.trim())
}

test('the tables are those of the contract', () => {
  expect(document).toBe(replaceTables(document, services))
  expect(() => replaceTables('# Without markers', services)).toThrow(/no place/)
})

test('each method has one row, with its scopes, the fields that confine it, and its path', () => {
  for (const service of services) {
    const [, section = ''] = document.split(`### ${service.typeName}\n`)
    const [part = ''] = section.split('\n### ', 1)
    for (const method of service.methods) {
      const cells = cellsOf(part, method.name)
      const { credential, scopes, ...stated } = getOption(method, policy)
      const { tenantScope, unrestrictedFields } = stated
      const path = restPath(method)
      if (path !== undefined) expect(cells).toContain(`\`POST ${path}/\``)
      if (credential === Credential.SECRET_KEY) {
        expect(cells[1]).toBe(scopes.map((scope) => `\`${scope}\``).join(', '))
        expect(cells[2]).toBe(stated.openToUnscopedKeys ? 'may call it' : 'is refused')
        continue
      }
      expect(new Set(cells[1]!.split(', '))).toEqual(
        new Set(['admin', ...scopes].map((scope) => `\`${scope}\``)),
      )
      const rule = tenantScope!.rule
      const fields =
        rule.case === 'owned'
          ? rule.value.resources.map(({ field }) => field)
          : [rule.value].filter((value) => typeof value === 'string' && value !== '')
      const named = [...cells[2]!.matchAll(/`(\w+)`/g)].map(([, field]) => field)
      expect([method.name, named]).toEqual([method.name, [...fields, ...unrestrictedFields]])
      expect(cells[2] === 'is refused').toBe(rule.case === 'unrestrictedOnly')
    }
  }
})

test('the row of each scope of a key names the methods whose policy names it', () => {
  const methods = services.flatMap((service) => service.methods)
  const policies = methods.map((method) => [method.name, getOption(method, policy)] as const)
  const forKeys = policies.filter(([, { credential }]) => credential === Credential.SECRET_KEY)
  const namesOf = (first: string) =>
    cellsOf(scopesOfKeys, first)[1]!
      .split(', ')
      .filter((name) => name !== '–')
  for (const scope of KEY_SCOPES) {
    const named = forKeys.filter(([, { scopes }]) => scopes.includes(scope))
    expect(namesOf(`\`${scope}\``)).toEqual(named.map(([name]) => name))
  }
  const open = forKeys.filter(([, { openToUnscopedKeys }]) => openToUnscopedKeys)
  expect(namesOf('no scopes')).toEqual(open.map(([name]) => name))
})

test('the row of each scope names the methods whose policy names it', () => {
  const methods = services.flatMap((service) => service.methods)
  for (const scope of [
    'payments:write',
    'payments:reverse',
    'splits:write',
    'webhooks:write',
    'read',
    'events:subscribe',
  ]) {
    const [, ...cells] = cellsOf(scopesOfTokens, `\`${scope}\``)
    const [open, closed] = cells.map((cell) =>
      cell.split('; ').flatMap((part) => {
        const [, service, names = ''] = /^`(\w+)` (.*)$/.exec(part) ?? []
        return names.split(', ').flatMap((name) => (name === '' ? [] : `${service}.${name}`))
      }),
    )
    const allowed = methods.filter((method) => {
      const { credential, scopes } = getOption(method, policy)
      return credential === Credential.TOKEN && scopes.includes(scope)
    })
    const restricted = (method: (typeof methods)[number]) =>
      getOption(method, policy).tenantScope?.rule.case === 'unrestrictedOnly'
    const name = (method: (typeof methods)[number]) => `${method.parent.name}.${method.name}`
    expect(closed).toEqual(allowed.filter(restricted).map(name))
    expect(open).toEqual(allowed.filter((each) => !restricted(each)).map(name))
  }
})
