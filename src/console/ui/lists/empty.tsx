import type { ReactNode } from 'react'
import { CommandLine } from '../controls/code.tsx'

/** Says what would be here, and the command that makes it. */
export function Empty({
  title,
  children,
  command,
}: {
  readonly title: string
  readonly children?: ReactNode
  readonly command?: string | undefined
}) {
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      {children && <p>{children}</p>}
      {command !== undefined && <CommandLine text={command} />}
    </div>
  )
}
