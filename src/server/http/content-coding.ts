/** How the bytes of a response are coded. */
export type Coding = 'identity' | 'gzip' | 'br'

/** The best coding that a client accepts. @param accepted its Accept-Encoding header */
export function codingOf(accepted: string | string[] | undefined): Coding {
  const codings = String(accepted ?? '')
    .split(',')
    .map((each) => each.trim())
  if (codings.includes('br')) return 'br'
  return codings.includes('gzip') ? 'gzip' : 'identity'
}
