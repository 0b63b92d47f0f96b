import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Command } from 'commander'
import { EXIT, Failure, print } from './output.ts'
import { addVerbs, local } from './verb.ts'

const PROTO_HELP = `
  export: write the .proto files of the contract, with all of their imports, so that protoc and buf can generate code from the folder. It does not need a service
  <folder>  the folder to write to; it is created if it does not exist, and must be empty
  --force  write into a folder that is not empty, and overwrite files of the same names
  Example: proto export contract`

export function proto(noun: Command): void {
  addVerbs(noun, PROTO_HELP, {
    export: local(async (folder: string, options: { readonly force?: boolean }) => {
      const written = await exportContract(folder, options.force === true)
      print(`Wrote ${written.length} files into ${folder}.`)
    }),
  })
}

/** Makes the folder a module of buf. The linter ignores the imports of the contract. */
const BUF_YAML = `version: v2
lint:
  use:
    - STANDARD
  ignore:
    - buf
    - google
`

/** An option that protoc supports since version 22, and that is removed: Debian 12 and Ubuntu 24.04 have 3.21. */
const DEBUG_REDACT = /^ *debug_redact = true,\n/gm

/** The folder of the contract, both in a checkout and in an installed package. */
const CONTRACT = join(import.meta.dirname, '../../proto')

/**
 * Writes the contract and its imports, except google/protobuf, which every compiler contains.
 * If the folder is not empty, nothing is written unless `force` is set; other files in the folder are kept.
 *
 * @returns the paths of the files, relative to the folder
 */
export async function exportContract(folder: string, force: boolean): Promise<readonly string[]> {
  const found = await readdir(CONTRACT, { recursive: true })
  const names = found.filter((name) => name.endsWith('.proto'))
  try {
    if (!force) await refuseUnlessEmpty(folder)
    for (const name of names) {
      await mkdir(join(folder, dirname(name)), { recursive: true })
      const text = await readFile(join(CONTRACT, name), 'utf8')
      await writeFile(join(folder, name), text.replaceAll(DEBUG_REDACT, ''))
    }
    await writeFile(join(folder, 'buf.yaml'), BUF_YAML)
  } catch (error) {
    if (error instanceof Failure) throw error
    const { message } = error as Error
    throw new Failure(EXIT.refused, `cannot write into ${folder}: ${message}`)
  }
  return [...names, 'buf.yaml'].sort()
}

async function refuseUnlessEmpty(folder: string): Promise<void> {
  const entries = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  if (entries.length === 0) return
  throw new Failure(EXIT.refused, `the folder ${folder} is not empty`, [
    'name another one, or write into it with --force',
  ])
}
