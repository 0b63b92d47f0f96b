import type { Command } from 'commander'
import { exportContract } from './export-contract.ts'
import { print } from './output.ts'
import { addVerbs, local } from './verb.ts'

const PROTO_HELP = `
  export: write the .proto files of the contract, with all they import, so that protoc and buf generate code from the folder at once. It does not need a service
  <folder>  where to; it is created, and must be empty
  --force  write into a folder that is not empty, over files of the same names
  Example: proto export contract`

/** `inflow proto` */
export function proto(noun: Command): void {
  addVerbs(noun, PROTO_HELP, {
    export: local(async (folder: string, options: { readonly force?: boolean }) => {
      const written = await exportContract(folder, options.force === true)
      print(`Wrote ${written.length} files into ${folder}.`)
    }),
  })
}
