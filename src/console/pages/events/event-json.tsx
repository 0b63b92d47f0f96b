import { toJsonString } from '@bufbuild/protobuf'
import { type Event, EventSchema } from '../../../../gen/inflow/event/v1/event_pb.ts'
import { EventService } from '../../../../gen/inflow/event/v1/event_service_pb.ts'
import { curlOfCall } from '../../format/curl.ts'
import { Code } from '../../ui/controls/code.tsx'
import { CopyButton } from '../../ui/controls/copy-button.tsx'

/** An event as JSON, and the commands that print it elsewhere. */
export function EventJson({ event }: { readonly event: Event }) {
  const { typeName } = EventService
  const call = curlOfCall(
    window.location.origin,
    `${typeName}/${EventService.method.getEvent.name}`,
    JSON.stringify({ eventId: event.id }),
  )
  return (
    <div className="event-json">
      <div className="page-actions">
        <CopyButton text={call} what="a curl command that reads the event" label="Copy as curl" />
        <CopyButton
          text={tailCommand({ live: event.live, businessId: event.businessId, kind: event.kind })}
          what="a command that follows such events"
          label="Copy as inflow command"
        />
      </div>
      <Code title={event.id} text={toJsonString(EventSchema, event, { prettySpaces: 2 })} />
    </div>
  )
}

/** The command that follows what a tail shows. */
export function tailCommand(shown: {
  readonly live: boolean
  readonly businessId: string
  readonly kind: string
}): string {
  return [
    'inflow events tail',
    shown.live ? '--live' : '--test',
    shown.kind === '' ? '' : `--kind ${shown.kind}`,
    shown.businessId === '' ? '' : `--business ${shown.businessId}`,
  ]
    .filter((part) => part !== '')
    .join(' ')
}
