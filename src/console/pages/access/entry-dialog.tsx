import type { Actor, AuditEntry } from '../../../../gen/inflow/admin/v1/audit_pb.ts'
import { shorten, words } from '../../format/ids.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Code } from '../../ui/controls/code.tsx'
import { Dialog } from '../../ui/controls/dialog.tsx'
import { Facts } from '../../ui/page.tsx'
import { Status } from '../../ui/status.tsx'
import { Id, Time } from '../../ui/values.tsx'

/** An entry with its details and hashes. @param entry undefined: closed */
export function EntryDialog({
  entry,
  onClose,
}: {
  readonly entry: AuditEntry | undefined
  readonly onClose: () => void
}) {
  if (entry === undefined) return null
  return (
    <Dialog title={`#${entry.number} ${entry.action}`} isOpen onClose={onClose}>
      <Facts
        facts={[
          ['Time', <Time key="at" at={entry.at} />],
          ['Who', <ActorShown key="actor" actor={entry.actor} />],
          ['Their id', entry.actor?.id && <Id text={entry.actor.id} charsMax={36} />],
          ['From', entry.address],
          ['Request', entry.requestId && <Id text={entry.requestId} charsMax={36} />],
          ['Target', entry.targetId && <Id text={entry.targetId} charsMax={36} />],
          ['Business', entry.businessId && <Id text={entry.businessId} charsMax={36} />],
          [
            'Authentic',
            <Status key="authentic" tone={entry.authentic ? 'good' : 'bad'}>
              {entry.authentic ? 'Yes' : 'Its MAC is not right'}
            </Status>,
          ],
          ['Hash', <Id key="hash" text={entry.hash} charsMax={36} />],
          ['Hash before', <Id key="previous" text={entry.previousHash} charsMax={36} />],
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

/** Who made a change, in words. */
export function ActorShown({ actor }: { readonly actor: Actor | undefined }) {
  if (!actor) return null
  const { kind, id, name } = actor
  const title = KINDS[kind] ?? (name || words(kind))
  return (
    <span title={id}>
      {title} {id !== '' && id !== kind && <code className="faint">{shorten(id)}</code>}
    </span>
  )
}
