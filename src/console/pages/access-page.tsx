import '../styles/access.css'
import type { DescMethod } from '@bufbuild/protobuf'
import type { ComponentType } from 'react'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { useMay } from '../session/session.tsx'
import { useUrlState } from '../session/view-scope.tsx'
import { Page } from '../ui/page.tsx'
import { PageLink } from '../ui/values.tsx'
import { AuditLog } from './audit-log.tsx'
import { Sessions, Tokens } from './credentials.tsx'

interface Part {
  /** In the URL. */
  readonly name: string
  readonly title: string
  /** The part is shown to a caller who may call this. */
  readonly needs: DescMethod
  readonly component: ComponentType
}

const PARTS: readonly Part[] = [
  { name: 'tokens', title: 'Tokens', needs: AdminService.method.listTokens, component: Tokens },
  {
    name: 'sessions',
    title: 'Sessions',
    needs: SessionService.method.listSessions,
    component: Sessions,
  },
  {
    name: 'audit',
    title: 'Audit log',
    needs: AdminService.method.listAuditEntries,
    component: AuditLog,
  },
]

/** Who may do what, and who did. A business sees what was done that concerns it, and nothing else. */
export function AccessPage() {
  const may = useMay()
  const [show] = useUrlState('show')
  const parts = PARTS.filter(({ needs }) => may(needs))
  const part = parts.find(({ name }) => name === show) ?? parts[0]
  if (!part) return null
  const Shown = part.component
  if (parts.length === 1) {
    return (
      <Page title={part.title} isWide>
        <Shown />
      </Page>
    )
  }
  return (
    <Page title="Access" isWide>
      <nav className="tabs" aria-label="Parts">
        {parts.map(({ name, title }) => (
          <PageLink
            key={name}
            to="/access"
            query={{ show: name }}
            className={name === part.name ? 'tab here' : 'tab'}
            isHere={name === part.name}
          >
            {title}
          </PageLink>
        ))}
      </nav>
      <Shown />
    </Page>
  )
}
