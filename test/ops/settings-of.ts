import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { listSettings } from '../../src/config/setting-table.ts'

export const OPS = join(import.meta.dirname, '../../src/ops')

export const readOps = (path: string): string => readFileSync(join(OPS, path), 'utf8')

// biome-ignore lint/suspicious/noExplicitAny: tests read documents of many shapes
export type Yaml = any

/** The documents of a YAML file. */
export function yamlOf(path: string): Yaml[] {
  return parseAllDocuments(readOps(path), { merge: true }).map((document) => {
    if (document.errors.length > 0) throw document.errors[0]
    return document.toJS()
  })
}

/** The names that are no settings of the service. */
export function unknownSettings(names: readonly string[]): readonly string[] {
  const known = new Set(
    listSettings().flatMap(({ name, secret }) => (secret ? [name, `${name}_FILE`] : [name])),
  )
  return names.filter((name) => !known.has(name))
}

/** An image with a tag that names a version, so that a build is the same tomorrow. */
export const PINNED = /^[a-z0-9./-]+:v?\d+\.\d+(\.\d+)?[\w.-]*$/

/** Whether a program is installed. */
export function isInstalled(program: string): boolean {
  return spawnSync('sh', ['-c', `command -v ${program}`]).status === 0
}
