import type { FieldFault } from '../../core/errors.ts'
import type { Endpoint } from './endpoint.entity.ts'
import type { RequestFormat } from './endpoint.ts'

export const STANDARD_FORMAT: RequestFormat = {
  profile: 'STANDARD',
  legacySignature: null,
  eventName: null,
  payerAsArray: false,
}

/** What a WIAXY endpoint receives unless it names kinds: its receiver may credit whatever it is sent. */
export const WIAXY_KINDS: readonly string[] = ['PAYMENT_NOTIFICATION']

/** The fields of a format to change; absent fields keep their values. */
export interface FormatChange {
  /** Null: none. */
  readonly legacySignature?: RequestFormat['legacySignature']
  readonly eventName?: RequestFormat['eventName']
  readonly payerAsArray?: boolean | undefined
}

/** @returns the fields that only WIAXY endpoints have, if it is none */
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

/** What the audit log has of a format, or of its change. */
export function formatDetails(
  format: FormatChange & Partial<Pick<RequestFormat, 'profile'>>,
): Readonly<Record<string, unknown>> {
  const { profile, legacySignature, eventName, payerAsArray } = format
  return {
    ...(profile !== undefined && { profile }),
    ...(legacySignature !== undefined && { legacySignature }),
    ...(eventName !== undefined && { eventName }),
    ...(payerAsArray !== undefined && { payerAsArray }),
  }
}
