import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { replaceTables } from '../../proto/authorization-tables.ts'
import { SERVICES } from '../../src/protobuf/contract-services.ts'

test('the tables of the guide are those of the contract', () => {
  const guide = join(import.meta.dirname, '../../src/docs/authorization.md')
  const document = readFileSync(guide, 'utf8')
  expect(document).toBe(replaceTables(document, SERVICES))
})
