import type { FieldFault } from '../../core/errors.ts'
import type { Endpoint } from './endpoint.entity.ts'
import type { RequestFormat } from './endpoint.ts'

export const STANDARD_FORMAT: RequestFormat = {
  profile: 'STANDARD',
  legacySignature: null,
  eventName: null,
  payerAsArray: false,
}

/** The kinds that a WIAXY endpoint receives by default: its receiver may credit every event that it is sent. */
export const WIAXY_KINDS: readonly string[] = ['PAYMENT_NOTIFICATION']

/** The fields of a format to change; absent fields keep their values. */
export interface FormatChange {
  /** Null: none. */
  readonly legacySignature?: RequestFormat['legacySignature']
  readonly eventName?: RequestFormat['eventName']
  readonly payerAsArray?: boolean | undefined
}

/** @returns faults for the requested fields that only WIAXY endpoints have, if the endpoint is not a WIAXY endpoint */
export function applyFormat({ format }: Endpoint, change: FormatChange): FieldFault[] {
  const { legacySignature, eventName, payerAsArray } = change
  if (format.profile !== 'WIAXY') {
    return Object.entries({ legacySignature, eventName, payerAsArray })
      .filter(([, value]) => value !== undefined)
      .map(([field]) => ({ field, message: 'is only for the WIAXY profile' }))
  }
  if (legacySignature !== undefined) format.legacySignature = legacySignature
  if (eventName !== undefined) format.eventName = eventName
  if (payerAsArray !== undefined) format.payerAsArray = payerAsArray
  return []
}
