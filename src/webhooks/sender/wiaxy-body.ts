import { fromBinary, type JsonObject } from '@bufbuild/protobuf'
import { EventSchema } from '../../../gen/inflow/event/v1/event_pb.ts'
import type { Transaction } from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import type { LogEntry } from '../../events/read-log.ts'
import type { RequestFormat } from '../endpoints/endpoint.ts'

/**
 * The body of the WIAXY profile: all of the standard one, and what existing receivers read. Payments have the customer,
 * the payer's names apart and `aspfiy_ref`.
 *
 * @param body the standard body, as JSON
 */
export function toWiaxyBody(
  body: JsonObject,
  entry: LogEntry,
  { eventName, payerAsArray }: Pick<RequestFormat, 'eventName' | 'payerAsArray'>,
): JsonObject {
  const { payload } = fromBinary(EventSchema, entry.payload)
  if (payload.case !== 'transaction') return body
  const data = body['data'] as JsonObject
  const payer = wiaxyPayer(data)
  return {
    event: entry.kind === 'PAYMENT_NOTIFICATION' && eventName ? eventName : entry.kind,
    data: {
      ...data,
      payer: payerAsArray ? [payer] : payer,
      aspfiy_ref: data['wiaxy_ref'] ?? '',
      customer: customerOf(payload.value),
    },
  }
}

function wiaxyPayer({ payer, created_at: paidAt }: JsonObject): JsonObject {
  const known = payer as JsonObject
  const [firstName, lastName] = splitName(`${known['account_name']}`)
  return {
    ...known,
    first_name: firstName,
    last_name: lastName,
    bank_id: known['bank_code'] ?? '',
    createdAt: paidAt ?? '',
    created_at: paidAt ?? '',
  }
}

function customerOf({ customerName, customerLastName, customerEmail }: Transaction): JsonObject {
  const [firstName, lastName] =
    customerLastName === ''
      ? splitName(customerName)
      : [customerName.slice(0, -customerLastName.length - 1), customerLastName]
  return { email: customerEmail, firstName, lastName }
}

/** @returns what is before the first space, and what is after it */
function splitName(name: string): readonly [string, string] {
  const space = name.indexOf(' ')
  return space < 0 ? [name, ''] : [name.slice(0, space), name.slice(space + 1)]
}
