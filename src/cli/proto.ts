import type { Command } from 'commander'
import { exportContract } from './export-contract.ts'
import { print } from './output.ts'
import { addVerb } from './verb.ts'

/** `inflow proto` */
export function proto(noun: Command): void {
  addVerb(noun, 'export', {
    summary:
      'write the .proto files of the contract, with all they import, so that protoc and buf ' +
      'generate code from the folder at once. It does not need a service',
    example: 'proto export contract',
  })
    .argument('<folder>', 'where to; it is created, and must be empty')
    .option('--force', 'write into a folder that is not empty, over files of the same names')
    .action(async (folder: string, options: { readonly force?: boolean }) => {
      const written = await exportContract(folder, options.force === true)
      print(`Wrote ${written.length} files into ${folder}.`)
    })
}
