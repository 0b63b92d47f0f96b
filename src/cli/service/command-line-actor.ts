import { hostname, userInfo } from 'node:os'
import type { AuditKeys } from '../../auth/audit/audit-hash.ts'
import type { Actor } from '../../auth/caller.ts'

/** Who runs this command, for the audit entries of commands that work on the database itself. */
export function commandLineActor(auditKeys: AuditKeys): Actor {
  const name = `${userName()}@${hostname()}`
  return { kind: 'command_line', id: '', name, address: '', requestId: '', auditKeys }
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    // A container may run as a user without a name.
    return `uid ${process.getuid?.()}`
  }
}
