/** Writes the tables of `src/docs/authorization.md`. Part of `npm run generate`. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SERVICES } from '../src/protobuf/contract-services.ts'
import { replaceTables } from './authorization-tables.ts'

const file = join(import.meta.dirname, '../src/docs/authorization.md')
writeFileSync(file, replaceTables(readFileSync(file, 'utf8'), SERVICES))
