import {
  HeaderOmission,
  type WebhookRequest,
} from '../../../../gen/browser/inflow/webhook/v1/delivery_pb.ts'

/** Quotes a text for a POSIX shell. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}

/**
 * The command that repeats a request. What is secret, and what differs from attempt to attempt, is left out: a
 * receiver that verifies signatures refuses it.
 */
export function curlOf({ method, url, headers, body }: WebhookRequest): string {
  const lines = [
    `curl -X ${method} ${quote(url)}`,
    ...headers
      .filter(({ omission }) => omission === HeaderOmission.UNSPECIFIED)
      .map(({ name, value }) => `-H ${quote(`${name}: ${value}`)}`),
    `--data-raw ${quote(body)}`,
  ]
  return lines.join(' \\\n  ')
}
