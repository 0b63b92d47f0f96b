import {
  BumpEpochResponseSchema,
  EventService,
} from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { confirm } from '../confirm.ts'
import { note } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'

/** `inflow events epoch bump` */
export const bumpEpoch = serviceAction<{ yes?: boolean }>(async (service, options) => {
  if (options.yes !== true) {
    await confirm(process.stdin, process.stderr, {
      question:
        'All cursors issued so far become invalid, and every subscriber must resume from a safe\n' +
        'cursor. Do this after a restore of the database, or a failover that lost commits.',
      word: 'bump',
    })
  }
  const response = await service.client(EventService).bumpEpoch({})
  printResponse(options, BumpEpochResponseSchema, response, () => `Epoch ${response.epoch}`)
  note('Cursors of earlier epochs are refused; the error carries a safe cursor to resume from.')
})
