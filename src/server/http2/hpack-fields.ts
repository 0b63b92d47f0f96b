/** What the door makes of a field: of the most, nothing. */
export const KIND = {
  other: 0,
  method: 1,
  scheme: 2,
  path: 3,
  authority: 4,
  contentType: 5,
  contentLength: 6,
  te: 7,
  grpcTimeout: 8,
  grpcEncoding: 9,
  authorization: 10,
  /** No request may have it: what belongs to HTTP/1.1, and names that are none. */
  forbidden: 11,
} as const

const KINDS = new Map<string, number>([
  [':method', KIND.method],
  [':scheme', KIND.scheme],
  [':path', KIND.path],
  [':authority', KIND.authority],
  ['content-type', KIND.contentType],
  ['content-length', KIND.contentLength],
  ['te', KIND.te],
  ['grpc-timeout', KIND.grpcTimeout],
  ['grpc-encoding', KIND.grpcEncoding],
  ['authorization', KIND.authorization],
  ['connection', KIND.forbidden],
  ['keep-alive', KIND.forbidden],
  ['proxy-connection', KIND.forbidden],
  ['transfer-encoding', KIND.forbidden],
  ['upgrade', KIND.forbidden],
])

/** Names of fields are tokens (RFC 9110, section 5.1), and in lower case (RFC 9113, 8.2.1). */
const NAME = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/

/** Values hold no NUL, CR or LF (8.2.1). White space around them is let be: clients do send it. */
const BAD_VALUE = /[\0\r\n]/

/** What a field counts beyond its octets (RFC 7541, section 4.1). */
const FIELD_BYTES = 32

/** One field of a list of headers. Those in tables are read once, and seen many times. */
export class HeaderField {
  readonly name: string
  readonly value: string
  /** What becomes of its name, and so of every field that has the same. */
  readonly nameKind: number
  readonly kind: number
  /** As tables and lists count it. */
  readonly bytes: number

  /** @param nameKind of a field with this name, when there is one */
  constructor(name: string, value: string, nameKind = kindOf(name)) {
    this.name = name
    this.value = value
    this.nameKind = nameKind
    this.kind = BAD_VALUE.test(value) ? KIND.forbidden : nameKind
    this.bytes = name.length + value.length + FIELD_BYTES
  }
}

function kindOf(name: string): number {
  return KINDS.get(name) ?? (NAME.test(name) ? KIND.other : KIND.forbidden)
}

const STATIC: readonly (readonly [name: string, value: string])[] = [
  [':authority', ''],
  [':method', 'GET'],
  [':method', 'POST'],
  [':path', '/'],
  [':path', '/index.html'],
  [':scheme', 'http'],
  [':scheme', 'https'],
  ...['200', '204', '206', '304', '400', '404', '500'].map((code) => [':status', code] as const),
  ['accept-charset', ''],
  ['accept-encoding', 'gzip, deflate'],
  ...[
    ...['accept-language', 'accept-ranges', 'accept', 'access-control-allow-origin', 'age'],
    ...['allow', 'authorization', 'cache-control', 'content-disposition', 'content-encoding'],
    ...['content-language', 'content-length', 'content-location', 'content-range'],
    ...['content-type', 'cookie', 'date', 'etag', 'expect', 'expires', 'from', 'host', 'if-match'],
    ...['if-modified-since', 'if-none-match', 'if-range', 'if-unmodified-since'],
    ...['last-modified', 'link', 'location', 'max-forwards', 'proxy-authenticate'],
    ...['proxy-authorization', 'range', 'referer', 'refresh', 'retry-after', 'server'],
    ...['set-cookie', 'strict-transport-security', 'transfer-encoding', 'user-agent', 'vary'],
    ...['via', 'www-authenticate'],
  ].map((name) => [name, ''] as const),
]

/** The fields that both ends know from the beginning (RFC 7541, appendix A), the first at 0. */
export const STATIC_TABLE = STATIC.map(([name, value]) => new HeaderField(name, value))
