import type { FieldFault } from '../../core/errors.ts'
import type { Endpoint } from './endpoint.entity.ts'
import type { RequestFormat } from './endpoint.ts'

export const STANDARD_FORMAT: RequestFormat = {
  profile: 'STANDARD',
  legacySignature: undefined,
  eventName: undefined,
  payerAsArray: false,
}

/** What a WIAXY endpoint receives unless it names kinds: its receiver may credit whatever it is sent. */
export const WIAXY_KINDS: readonly string[] = ['PAYMENT_NOTIFICATION']

type Columns = Pick<Endpoint, 'profile' | 'legacySignature' | 'eventName' | 'payerAsArray'>

export function toFormatColumns(format: RequestFormat): Columns {
  return {
    profile: format.profile ?? null,
    legacySignature: format.legacySignature ?? null,
    eventName: format.eventName ?? null,
    payerAsArray: format.payerAsArray,
  }
}

export function fromFormatColumns(columns: Columns): RequestFormat {
  return {
    profile: columns.profile ?? undefined,
    legacySignature: columns.legacySignature ?? undefined,
    eventName: columns.eventName ?? undefined,
    payerAsArray: columns.payerAsArray,
  }
}

/** The fields of a format to change; absent fields keep their values. */
export interface FormatChange {
  readonly legacySignature?: RequestFormat['legacySignature'] | 'none'
  /** Empty: the kind itself. */
  readonly eventName?: string | undefined
  readonly payerAsArray?: boolean | undefined
}

/** @returns the fields that only WIAXY endpoints have, if it is none */
export function applyFormat(endpoint: Endpoint, change: FormatChange): FieldFault[] {
  const { legacySignature, eventName, payerAsArray } = change
  if (endpoint.profile !== 'WIAXY') {
    return Object.entries({ legacySignature, eventName, payerAsArray })
      .filter(([, value]) => value !== undefined)
      .map(([field]) => ({ field, message: 'is only for the WIAXY profile' }))
  }
  if (legacySignature !== undefined) {
    endpoint.legacySignature = legacySignature === 'none' ? null : legacySignature
  }
  if (eventName !== undefined) endpoint.eventName = eventName === '' ? null : eventName
  if (payerAsArray !== undefined) endpoint.payerAsArray = payerAsArray
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
