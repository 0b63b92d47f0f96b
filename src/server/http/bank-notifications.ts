import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Fault } from '../../core/errors.ts'
import { inRequest } from '../../core/tracing.ts'
import { BODY_BYTES_MAX, keepBytes, sendFault } from './gateway.ts'

/** Handles the notifications of banks that the HTTP server receives. */
export interface NotificationReceiver<Bank> {
  /** @returns undefined if no such bank is configured */
  bankOf(pathName: string): Bank | undefined
  /** Whether the bank may send notifications from an address. */
  allows(bank: Bank, address: string): boolean
  /** Processes a notification and responds in the bank's format. Does not throw. */
  receive(
    bank: Bank,
    notification: {
      /** The headers by lower-case name. */
      readonly headers: Readonly<Record<string, string | undefined>>
      readonly rawBody: Buffer
      /** The secret at the end of the path; empty if the path has none. */
      readonly pathSecret: string
    },
  ): Promise<{ readonly status: number; readonly contentType: string; readonly body: string }>
}

interface Route {
  Params: { readonly bank: string; readonly secret?: string }
}

/** `POST /banks/<bank>/notifications[/<secret>]`; the bank is named in upper or lower case. */
export async function registerBankNotifications<Bank>(
  app: FastifyInstance,
  receiver: NotificationReceiver<Bank>,
): Promise<void> {
  await app.register(async (scope) => {
    keepBytes(scope, BODY_BYTES_MAX)
    // Refused before the body is read, so that a caller other than the bank learns nothing.
    scope.addHook<Route>('onRequest', async (request, reply) => {
      const fault = refusal(receiver, request)
      if (fault) await reply.send(sendFault(reply, fault))
    })
    for (const path of ['/banks/:bank/notifications', '/banks/:bank/notifications/:secret']) {
      scope.route<Route>({
        method: ['POST', 'GET', 'PUT', 'PATCH', 'DELETE'],
        url: path,
        bodyLimit: BODY_BYTES_MAX,
        handler: (request, reply) => respond(receiver, request, reply),
      })
    }
  })
}

function refusal<Bank>(
  receiver: NotificationReceiver<Bank>,
  request: FastifyRequest<Route>,
): Fault | undefined {
  const bank = receiver.bankOf(request.params.bank)
  if (bank === undefined) return new Fault('unknown_path', 'There is nothing at this path')
  if (request.method !== 'POST') {
    return new Fault('method_not_allowed', 'This path accepts only POST')
  }
  if (receiver.allows(bank, request.ip)) return undefined
  return new Fault('permission_denied', 'The bank does not send notifications from this address')
}

async function respond<Bank>(
  receiver: NotificationReceiver<Bank>,
  request: FastifyRequest<Route>,
  reply: FastifyReply,
): Promise<string> {
  const bank = receiver.bankOf(request.params.bank) as Bank
  const notification = {
    headers: headersOf(request),
    rawBody: Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0),
    pathSecret: request.params.secret ?? '',
  }
  const { status, contentType, body } = await inRequest({ request_id: request.id }, () =>
    receiver.receive(bank, notification),
  )
  reply.code(status).header('content-type', contentType)
  return body
}

function headersOf({ headers }: FastifyRequest): Record<string, string | undefined> {
  const entries = Object.entries(headers)
  return Object.fromEntries(
    entries.map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : value]),
  )
}
