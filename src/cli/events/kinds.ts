import { EventAudience } from '../../../gen/inflow/type/v1/event_kind_pb.ts'
import {
  type EventKindDescription,
  EventKindDescriptionSchema,
  ListEventKindsResponseSchema,
  WebhookService,
} from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { EXIT, Failure } from '../failure.ts'
import { type Column, fields, table } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'

const SENT_TO: Readonly<Record<EventAudience, string>> = {
  [EventAudience.UNSPECIFIED]: '',
  [EventAudience.ENDPOINTS]: 'all endpoints',
  [EventAudience.ON_REQUEST]: 'endpoints with --kind',
  [EventAudience.ONE_ENDPOINT]: 'its endpoint',
  [EventAudience.SUBSCRIBERS]: 'subscribers only',
}

const ROW: readonly Column<EventKindDescription>[] = [
  { title: 'Kind', of: ({ kind }) => kind },
  { title: 'Sent to', of: ({ audience }) => SENT_TO[audience] ?? '' },
  { title: 'When', of: ({ description }) => description },
]

/** `inflow events kinds` */
export const listKinds = serviceAction<object>(async (service, options, name) => {
  const response = await service.client(WebhookService).listEventKinds({})
  if (name === '') {
    const text = () => table(response.kinds, ROW)
    printResponse(options, ListEventKindsResponseSchema, response, text)
    return
  }
  const found = response.kinds.find(({ kind }) => kind === name)
  if (found === undefined) {
    const names = response.kinds.map(({ kind }) => kind).join(', ')
    throw new Failure(EXIT.refused, `there is no event kind ${name}`, [`the kinds are ${names}`])
  }
  printResponse(options, EventKindDescriptionSchema, found, () => textOf(found))
})

function textOf(kind: EventKindDescription): string {
  const parts = [fields(kind, ROW)]
  if (kind.example) parts.push(`Example:\n${JSON.stringify(kind.example, null, 2)}`)
  if (kind.schema) parts.push(`JSON schema:\n${JSON.stringify(kind.schema, null, 2)}`)
  return parts.join('\n\n')
}
