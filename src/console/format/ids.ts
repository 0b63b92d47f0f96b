/** Shortens a text in the middle: ids and references stay recognisable at both ends. */
export function shorten(text: string, charsMax = 16): string {
  if (text.length <= charsMax) return text
  const tail = Math.min(6, Math.floor(charsMax / 2))
  return `${text.slice(0, charsMax - tail - 1)}…${text.slice(-tail)}`
}

/** `PAYMENT_ON_HOLD` as words: `Payment on hold`. */
export function words(name: string): string {
  const text = name.toLowerCase().replaceAll('_', ' ')
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** The name of an endpoint: its description, or its host and path without the query, which may contain a secret. */
export function endpointName(url: string, description: string): string {
  return description === '' ? placeOfUrl(url) : description
}

/** The host and the path of a URL: `shop.example/hooks`. */
export function placeOfUrl(url: string): string {
  if (!URL.canParse(url)) return url
  const { host, pathname } = new URL(url)
  return pathname === '/' ? host : host + pathname
}

export function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url
}
