import type { Command } from 'commander'
import {
  CreateSignInCodeResponseSchema,
  SessionService,
} from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { localTime } from '../local-time.ts'
import { note } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'
import { urlOf } from './link.ts'

/** `inflow console` */
export function console(noun: Command): void {
  addVerb(noun, 'link', {
    summary: 'make a link that signs a browser in once, with the rights of the token in use',
    example: 'console link',
  }).action(makeLink)
  addServiceOptions(noun)
}

const makeLink = serviceAction<object>(async (service, options) => {
  const response = await service.client(SessionService).createSignInCode({})
  printResponse(options, CreateSignInCodeResponseSchema, response, () => urlOf(response, service))
  note(`It can be opened once, until ${localTime.format(response.expiresAt)}.`)
})
