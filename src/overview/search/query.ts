/** What a text may be, by its shape. */
export interface Query {
  /** Without the space around it. */
  readonly text: string
  /** The kind of an identifier of this service, as its prefix names it: "txn", "acc", … */
  readonly prefix: string | undefined
  /** Whether it may be an identifier that a bank or a business gave. */
  readonly isForeignId: boolean
  /** Whether it may be the beginning of a business's name. */
  readonly isName: boolean
  /** The range of ids of the tokens and the keys that it identifies. */
  readonly credential: CredentialRange | undefined
}

/** Ids from the first to the last, both included. */
interface CredentialRange {
  readonly kind: 'tok' | 'key'
  readonly first: string
  readonly last: string
}

const ID = /^([a-z]{2,3})_[0-9a-z]{26}$/

/** An id, or a secret: the prefix that lists show has the first ten characters, and a secret all of them. */
const CREDENTIAL = /^(tok|it|key|sk_live|sk_test)_([0-9a-z]{10,26})(?:_[A-Za-z0-9_-]{0,43})?$/

/** The characters of the unique part of an id. */
const UNIQUE_LENGTH = 26

export function readQuery(query: string): Query {
  const text = query.trim()
  const credential = credentialOf(text)
  const prefix = ID.exec(text)?.[1]
  const isOurs = prefix !== undefined || credential !== undefined
  const isAddress = text.includes('@')
  return {
    text,
    prefix,
    isForeignId: !isOurs && !isAddress,
    isName: !isOurs && !isAddress && text !== '',
    credential,
  }
}

/** Ids have the same length and alphabet, so any collation orders them like this. */
function credentialOf(text: string): CredentialRange | undefined {
  const [, name = '', unique = ''] = CREDENTIAL.exec(text) ?? []
  if (unique === '') return undefined
  const kind = name === 'tok' || name === 'it' ? 'tok' : 'key'
  return {
    kind,
    first: `${kind}_${unique.padEnd(UNIQUE_LENGTH, '0')}`,
    last: `${kind}_${unique.padEnd(UNIQUE_LENGTH, 'z')}`,
  }
}
