import type { Command } from 'commander'
import { EXIT, Failure } from '../failure.ts'
import { readSecret, readSecretFile } from '../read-secret.ts'

/** Where the command line takes an identity number from. */
export interface IdNumberOptions {
  readonly idNumber?: string
  readonly idNumberFile?: string
}

const STANDARD_INPUT = '-'

/** Adds the options to a verb. @param description of the number */
export function addIdNumberOptions(verb: Command, description: string): Command {
  return verb
    .option('--id-number <->', `${description}, read from standard input`)
    .option('--id-number-file <path>', `${description}, read from a file ("-": standard input)`)
}

/**
 * Reads the identity number; empty if no option asks for one.
 *
 * @throws Failure when it is on the command line itself, which others on the machine can see
 */
export async function readIdNumber({ idNumber, idNumberFile }: IdNumberOptions): Promise<string> {
  if (idNumber !== undefined && idNumber !== STANDARD_INPUT) {
    throw new Failure(EXIT.usage, 'an identity number must not be on the command line', [
      'others on the machine can see it there: pass --id-number-file <path>, or --id-number - and',
      'type it or write it to standard input',
    ])
  }
  if (idNumber !== undefined && idNumberFile !== undefined) {
    throw new Failure(EXIT.usage, '--id-number and --id-number-file are both given: remove one')
  }
  if ((idNumberFile ?? idNumber) === STANDARD_INPUT) return readSecret('Identity number')
  return idNumberFile === undefined ? '' : readSecretFile(idNumberFile, '--id-number-file')
}
