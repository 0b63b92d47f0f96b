import type { ServiceImpl } from '@connectrpc/connect'
import type { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { actorOf, credentialStatusKey } from '../auth/caller.ts'
import { Fault, invalidFields } from '../core/errors.ts'
import type { Database } from '../postgres/orm.ts'
import { kindFaults } from './event-kinds.ts'
import { findEvent } from './find-event.ts'
import { readLogState } from './log-state.ts'
import { toEventMessage } from './message.ts'
import { readBusinessLog, readPositions } from './read-log.ts'
import { bumpEpoch } from './sequencer.ts'
import { type StreamTiming, subscribe } from './subscribe.ts'
import type { Tail } from './tail.ts'

/** The default limit of ListEvents. */
const LIMIT_DEFAULT = 100

interface Dependencies {
  readonly database: Database
  readonly tail: Tail
  readonly draining: AbortSignal
  readonly random: () => number
  readonly timing: StreamTiming
}

export function createEventRpc(dependencies: Dependencies): ServiceImpl<typeof EventService> {
  return {
    subscribe: (request, { signal, values }) =>
      subscribe(dependencies, request, signal, values.get(credentialStatusKey)),
    async listEvents(request) {
      const { businessId, test, after, kinds, newestFirst, before } = request
      const faults = kindFaults(kinds)
      if (faults.length > 0) throw invalidFields(faults)
      const range = newestFirst ? { before } : { after }
      const selected = { ...range, kinds, limit: request.limit || LIMIT_DEFAULT }
      return dependencies.database.read(async (on) => {
        const { entries, ...page } = await readBusinessLog(on, {
          businessId,
          live: !test,
          ...selected,
        })
        const { epoch } = await readLogState(on)
        return { events: entries.map((entry) => toEventMessage(entry, epoch)), epoch, ...page }
      })
    },
    getEvent: ({ eventId }) =>
      dependencies.database.read(async (on) => {
        const found = await findEvent(on, eventId)
        const [entry] = found ? await readPositions(on, [found.position]) : []
        if (entry === undefined)
          throw new Fault('not_found', 'There is no such event, or it has expired')
        const { epoch } = await readLogState(on)
        return { event: toEventMessage(entry, epoch) }
      }),
    bumpEpoch: (_request, context) => bumpEpoch(dependencies.database.pool, actorOf(context)),
  }
}
