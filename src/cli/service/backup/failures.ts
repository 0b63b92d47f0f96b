import { BackupError } from '../../../postgres/backups/backup.ts'
import { EXIT, Failure } from '../../failure.ts'

/** Rethrows an error of a backup, or of the file system, as one that the operator can act on. */
export function asFailure(error: unknown): never {
  const isSystem = error instanceof Error && 'syscall' in error
  if (error instanceof BackupError || isSystem) throw new Failure(EXIT.refused, error.message)
  throw error
}
