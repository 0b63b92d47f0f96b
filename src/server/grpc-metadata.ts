import { type HeaderPair, REQUEST_ID, RESPONSE } from './grpc-status.ts'
import { encodeHeaders, encodeText } from './http2/hpack-encoder.ts'
import type { HeaderField } from './http2/hpack-fields.ts'

/** Entries that concern the transport alone, and those that are bytes: we read none. */
const UNSEEN = /^(:.*|te|content-type|accept-encoding|grpc-timeout|grpc-(accept-)?encoding|.*-bin)$/

/** What an answer's block of headers has before the request id, which comes last. */
const ANSWER_HEAD = encodeAnswerHead([])

const UNITS_MS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 0.001,
  n: 0.000_001,
}

/** The metadata of a request. */
export function toHeaders(fields: readonly HeaderField[]): Headers {
  const headers = new Headers()
  for (const { name, value } of fields) if (!UNSEEN.test(name)) headers.append(name, value)
  return headers
}

/** The headers of an answer, but for the value of the last: the request id. */
export function answerHead(headers: Headers | undefined): Buffer {
  if (headers === undefined) return ANSWER_HEAD
  const own: HeaderPair[] = []
  headers.forEach((value, name) => {
    if (!name.endsWith('-bin') && name !== REQUEST_ID) own.push([name, value])
  })
  return encodeAnswerHead(own)
}

function encodeAnswerHead(own: readonly HeaderPair[]): Buffer {
  return Buffer.concat([encodeHeaders([...RESPONSE, ...own]), Buffer.of(0), encodeText(REQUEST_ID)])
}

/** `100m` in milliseconds, as `grpc-timeout` says it; undefined when it says nothing. */
export function parseTimeout(text: string): number | undefined {
  const [, amount, unit = ''] = /^(\d{1,8})([HMSmun])$/.exec(text) ?? []
  const unitMs = UNITS_MS[unit]
  return unitMs === undefined ? undefined : Number(amount) * unitMs
}
