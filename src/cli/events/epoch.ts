import {
  BumpEpochResponseSchema,
  EventService,
} from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { confirm, type YesOption } from '../confirm.ts'
import { note } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'

/** `inflow events epoch bump` */
export const bumpEpoch = serviceAction<YesOption>(async (service, options) => {
  await confirm(options, {
    word: 'bump',
    question:
      'A new epoch begins at the end of the event log. Inflow does this by itself after a failover\n' +
      'or a restore; do it only if it did not. Payments may wait for up to two seconds.',
  })
  const response = await service.client(EventService).bumpEpoch({})
  printResponse(options, BumpEpochResponseSchema, response, () => `Epoch ${response.epoch}`)
  note('Cursors up to the end of the log stay valid; later ones are refused with a safe cursor.')
})
