import type { Command } from 'commander'
import {
  CreateSignInCodeResponseSchema,
  SessionService,
} from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { localTime } from '../local-time.ts'
import { note } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { type Service, serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'

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

/** Where a code or a portal link is opened, as the service states it. */
interface Link {
  /** Empty without PUBLIC_URL. */
  readonly url: string
  readonly urlPath: string
}

/** The URL of a link: by PUBLIC_URL, else of the local service; else only the path is known. */
export function urlOf({ url, urlPath }: Link, { httpUrl }: Service): string {
  if (url !== '') return url
  if (httpUrl !== undefined) return `${httpUrl}${urlPath}`
  note('Open this path at the address of the HTTP server; PUBLIC_URL of the service states it.')
  return urlPath
}
