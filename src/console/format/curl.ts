import { HeaderOmission, type WebhookRequest } from '../../../gen/inflow/webhook/v1/delivery_pb.ts'

interface CurlHeader {
  readonly name: string
  /** Undefined: not known here; the command takes it from a variable of the shell. */
  readonly value: string | undefined
}

/** A request as a command line says it. */
interface CurlRequest {
  readonly method: string
  readonly url: string
  readonly headers: readonly CurlHeader[]
  readonly body: string
}

/** Writes a request as a command for a POSIX shell. A header without a value becomes `$ITS_NAME`. */
export function curlOf({ method, url, headers, body }: CurlRequest): string {
  const lines = [`curl -X ${method} ${quoted(url)}`]
  for (const { name, value } of headers) {
    const text =
      value === undefined ? `"${name}: $${variableOf(name)}"` : quoted(`${name}: ${value}`)
    lines.push(`-H ${text}`)
  }
  if (body !== '') lines.push(`--data-raw ${quoted(body)}`)
  return lines.join(CONTINUED)
}

/** Writes a webhook as a command; its secrets, and what differs by attempt, are variables of the shell. */
export function curlOfWebhook({ method, url, headers, body }: WebhookRequest): string {
  const known = headers.map(({ name, value, omission }) => ({
    name,
    value: omission === HeaderOmission.UNSPECIFIED ? value : undefined,
  }))
  return curlOf({ method, url, headers: known, body })
}

/** Writes a call of the contract, by JSON over HTTP, with the token of the shell's `INFLOW_TOKEN`. */
export function curlOfCall(origin: string, method: string, json: string): string {
  return [
    `curl ${quoted(`${origin}/${method}`)}`,
    '-H "authorization: Bearer $INFLOW_TOKEN"',
    `-H 'content-type: application/json'`,
    `--data-raw ${quoted(json)}`,
  ].join(CONTINUED)
}

const CONTINUED = ' \\\n  '

/** In single quotes a shell reads everything as it is, but for the quote itself. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

function variableOf(header: string): string {
  return header.toUpperCase().replace(/[^A-Z0-9]/g, '_')
}
