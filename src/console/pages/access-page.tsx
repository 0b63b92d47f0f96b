import { useState } from 'react'
import {
  AdminService,
  type VerifyAuditResponse,
} from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import {
  type Actor,
  type AuditEntry,
  AuditEntrySchema,
} from '../../../gen/inflow/admin/v1/audit_pb.ts'
import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { shorten, words } from '../format/ids.ts'
import { count } from '../format/money.ts'
import { useMay, useOnlyBusiness, useRestricted } from '../session/session.tsx'
import { useUrlState, useViewScope } from '../session/view-scope.tsx'
import { Button, Code } from '../ui/button.tsx'
import { columnsOf, MessageFacts } from '../ui/columns.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { FilterBar, TextFilter, TimeFilter, useTimeRange } from '../ui/filters.tsx'
import { List, usePagedList } from '../ui/list.tsx'
import { Empty, Failure, Page, Section } from '../ui/page.tsx'
import { useProgress } from '../ui/progress.ts'
import { Id, PageLink, Status } from '../ui/values.tsx'
import { PortalLinks, Sessions, Tokens, usePortalLinks } from './credentials.tsx'

/** The parts of the page, with the methods that a caller must be allowed to call. Their names are in the URL. */
const PARTS = [
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

/** Credentials, sessions and the audit log. A business sees only its own. */
export function AccessPage() {
  const may = useMay()
  const only = useOnlyBusiness()
  const [show] = useUrlState('show')
  const parts = PARTS.filter(({ needs }) => may(needs))
  const part = parts.find(({ name }) => name === show) ?? parts[0]
  if (!part) return null
  if (only !== undefined) return <TeamPage businessId={only} />
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

function TeamPage({ businessId }: { readonly businessId: string }) {
  const links = usePortalLinks(businessId)
  const mayList = useMay()(SessionService.method.listPortalLinks)
  return (
    <Page title="Team" isWide>
      {mayList && <PortalLinks title="Who may sign in" businessId={businessId} links={links} />}
      <Section title="What was done">
        <AuditLog />
      </Section>
    </Page>
  )
}

function AuditLog() {
  const mayVerify = useMay()(AdminService.method.verifyAudit)
  const [opened, setOpened] = useState<AuditEntry>()
  const list = useEntries()
  return (
    <>
      {mayVerify && <Verification />}
      <FilterBar>
        <TextFilter name="action" label="Action" placeholder="key.revoke" />
        <TextFilter name="actor" label="Actor" placeholder="tok_…, key_…" />
        <TextFilter name="target" label="Target" placeholder="key_…, ep_…, biz_…" />
        <TimeFilter />
      </FilterBar>
      <List
        label="Audit entries"
        columns={COLUMNS}
        of={list}
        keyOf={({ number }) => String(number)}
        onOpen={setOpened}
        empty={
          <Empty title="No entries" command="inflow audit list">
            Every administrative change is kept here, for good.
          </Empty>
        }
      />
      <EntryDialog entry={opened} onClose={() => setOpened(undefined)} />
    </>
  )
}

function useEntries() {
  const { businessId } = useViewScope()
  const [action] = useUrlState('action')
  const [actorId] = useUrlState('actor')
  const [targetId] = useUrlState('target')
  const period = useTimeRange()
  return usePagedList(AdminService.method.listAuditEntries, 'entries', {
    businessId,
    action,
    actorId,
    targetId,
    pageSize: 50,
    ...period,
  })
}

const COLUMNS = columnsOf(AuditEntrySchema, [
  ['#', ({ number }) => String(number), 'number'],
  ['Time', 'at'],
  ['Action', ({ action }) => <code>{action}</code>],
  ['Who', ({ actor }) => <ActorShown actor={actor} />],
  [
    'Target',
    ({ targetKind, targetId }) => (
      <>
        {targetKind.replaceAll('_', ' ')} {targetId !== '' && <Id text={targetId} />}
      </>
    ),
  ],
  ['From', ({ address }) => <code>{address}</code>],
  'businessId',
])

/** An entry with its details and hashes. @param entry undefined: the dialog is closed */
function EntryDialog({ entry, onClose }: { entry: AuditEntry | undefined; onClose: () => void }) {
  if (entry === undefined) return null
  return (
    <Dialog title={`#${entry.number} ${entry.action}`} isOpen onClose={onClose}>
      <MessageFacts
        schema={AuditEntrySchema}
        of={entry}
        facts={[
          ['Time', 'at'],
          ['Who', ({ actor }) => <ActorShown actor={actor} />],
          ['Their id', ({ actor }) => actor?.id && <Id text={actor.id} charsMax={36} />],
          'address',
          ['Request', 'requestId'],
          ['Target', 'targetId'],
          ['Business', 'businessId'],
          [
            'Authentic',
            ({ authentic }) => (
              <Status tone={authentic ? 'good' : 'bad'}>
                {authentic ? 'Yes' : 'Its MAC is wrong'}
              </Status>
            ),
          ],
          'hash',
          ['Hash before', 'previousHash'],
        ]}
      />
      <Code title="Details" text={entry.details || '{}'} />
      <div className="dialog-buttons">
        <Button onClick={onClose}>Close</Button>
      </div>
    </Dialog>
  )
}

const KINDS: Readonly<Record<string, string>> = {
  bootstrap: 'ADMIN_TOKEN',
  system: 'The service',
}

function ActorShown({ actor }: { readonly actor: Actor | undefined }) {
  const isPortal = useRestricted()
  if (!actor) return null
  const { kind, id, name } = actor
  const title =
    isPortal && kind === 'bootstrap' ? 'An operator' : (KINDS[kind] ?? (name || words(kind)))
  return (
    <span title={id}>
      {title} {id !== '' && id !== kind && <code className="faint">{shorten(id)}</code>}
    </span>
  )
}

/** Verifies the hash chain of the whole log, with progress. An interrupted verification continues where it stopped. */
function Verification() {
  const { state, at, error, start, resume, stop } = useProgress(
    AdminService,
    undefined as VerifyAuditResponse | undefined,
    (client, from, options) => client.verifyAudit({ from: from?.cursor ?? '' }, options),
    (_at, progress) => progress,
  )
  const canContinue = state === 'stopped' && at !== undefined
  return (
    <div className="verification" aria-live="polite">
      {state === 'running' ? (
        <>
          <progress
            aria-label="Verified entries"
            max={Number(at?.headNumber ?? 1n)}
            value={Number(at?.verifiedNumber ?? 0n)}
          />
          <span>
            {count(at?.verifiedNumber ?? 0n)} of {count(at?.headNumber ?? 0n)}
          </span>
          <Button onClick={stop}>Stop</Button>
        </>
      ) : (
        <Button onClick={canContinue ? resume : () => start()}>
          {canContinue ? `Continue after #${at.verifiedNumber}` : 'Verify the log'}
        </Button>
      )}
      {state === 'done' && at && <VerificationResult of={at} />}
      {error !== undefined && <Failure error={error} />}
    </div>
  )
}

function VerificationResult({ of }: { readonly of: VerifyAuditResponse }) {
  const { firstBreak, verifiedNumber, verifiedHash } = of
  if (firstBreak) {
    return (
      <>
        <Status tone="bad">Not intact</Status>
        <span>
          Entry #{String(firstBreak.number)} {firstBreak.problem}. Entries up to #
          {String(verifiedNumber)} are intact.
        </span>
      </>
    )
  }
  return (
    <>
      <Status tone="good">Intact</Status>
      <span title={verifiedHash}>
        All {count(verifiedNumber)} entries are as the service wrote them.
      </span>
    </>
  )
}
