const MASK = '********'

/**
 * Masks a secret for output. Of URLs, host and database stay, which are what an operator compares; the user
 * stays only beside a password, because it may be a token itself.
 */
export function maskSecret(text: string | undefined): string {
  if (text === undefined) return MASK
  const parts = text.split(',').map((part) => maskUrl(part.trim()))
  return parts.every((part) => part !== undefined) ? parts.join(',') : MASK
}

function maskUrl(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url?.host) return undefined
  const user = url.password === '' ? MASK : `${url.username}:${MASK}`
  const credentials = url.username + url.password === '' ? '' : `${user}@`
  const query = url.search === '' ? '' : `?${MASK}`
  return `${url.protocol}//${credentials}${url.host}${url.pathname}${query}`
}
