import { HeaderOmission, type WebhookRequest } from '../../../gen/inflow/webhook/v1/delivery_pb.ts'

/** Writes a webhook as a command for a POSIX shell. Secrets and values that differ by attempt are variables: `$ITS_NAME`. */
export function curlOfWebhook({
  method,
  url,
  headers,
  body,
}: Pick<WebhookRequest, 'method' | 'url' | 'headers' | 'body'>): string {
  const lines = [`curl -X ${method} ${quoted(url)}`]
  for (const { name, value, omission } of headers) {
    const isKnown = omission === HeaderOmission.UNSPECIFIED
    const variable = name.toUpperCase().replace(/[^A-Z0-9]/g, '_')
    lines.push(`-H ${isKnown ? quoted(`${name}: ${value}`) : `"${name}: $${variable}"`}`)
  }
  if (body !== '') lines.push(`--data-raw ${quoted(body)}`)
  return lines.join(CONTINUED)
}

/** Writes a call as a curl command with JSON over HTTP, and the token in the shell variable `INFLOW_TOKEN`. */
export function curlOfCall(origin: string, method: string, json: string): string {
  return [
    `curl ${quoted(`${origin}/${method}`)}`,
    '-H "authorization: Bearer $INFLOW_TOKEN"',
    `-H 'content-type: application/json'`,
    `--data-raw ${quoted(json)}`,
  ].join(CONTINUED)
}

const CONTINUED = ' \\\n  '

/** Quotes a text for a shell, which changes nothing between single quotes except the quote itself. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
