import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { DescMethod, DescService } from '@bufbuild/protobuf'
import { getOption } from '@bufbuild/protobuf'
import { http } from '../../gen/google/api/annotations_pb.ts'

const ROOT = join(import.meta.dirname, '../../gen/inflow')

/** Loads every service of the contract, by the names of their files. */
export async function loadServices(): Promise<DescService[]> {
  const files = readdirSync(ROOT, { recursive: true, encoding: 'utf8' })
  const found: DescService[] = []
  for (const file of files.filter((name) => name.endsWith('_service_pb.ts')).sort()) {
    const module = (await import(join(ROOT, file))) as Record<string, DescService>
    found.push(...Object.values(module).filter((each) => each?.kind === 'service'))
  }
  return found
}

/** Returns the REST path of a method, without a slash at its end; undefined: it has none. */
export function restPath(method: DescMethod): string | undefined {
  if (!method.proto.options) return undefined
  const { pattern } = getOption(method, http)
  return typeof pattern.value === 'string' ? pattern.value : undefined
}
