import type { DescEnum } from '@bufbuild/protobuf'
import type { Path } from '@bufbuild/protobuf/reflect'
import type { Violation } from '@bufbuild/protovalidate'

/**
 * The patterns of the contract in words. They stay patterns there, not CEL with a message: protovalidate
 * checks those without its interpreter of CEL, and recorded payments have some.
 */
const PATTERNS: Readonly<Record<string, string>> = {
  '^[0-9]{10}$': 'must be ten digits',
  '^[A-Za-z0-9_./-]{0,64}$': 'must be at most 64 characters of A-Z a-z 0-9 - _ . /',
  '^[A-Za-z0-9_./-]{1,64}$': 'must be 1 to 64 characters of A-Z a-z 0-9 - _ . /',
  '^[A-Za-z0-9_./:-]{0,100}$': 'must be at most 100 characters of A-Z a-z 0-9 - _ . / :',
  '^([A-Z][A-Z_]{0,63})?$': 'must be a name in capital letters, such as PAYMENT_NOTIFICATION',
  '^[A-Z][A-Z_]{0,63}$': 'must be the name of a kind of event, such as PAYMENT_NOTIFICATION',
  '^20[0-9]{2}-[0-9]{2}-[0-9]{2}$': 'must be a day, YYYY-MM-DD, such as 2026-12-25',
  '^20[0-9]{2}-(0[1-9]|1[0-2])$': 'must be a month, YYYY-MM, such as 2026-12',
  '^(([01][0-9]|2[0-3]):[0-5][0-9])?$': 'must be a time of day, HH:MM, such as 18:30',
}

/** Texts of protovalidate, and how they are worded here. */
const WORDINGS: readonly (readonly [RegExp, string | ((...found: string[]) => string)])[] = [
  [/^does not match regex pattern `(.*)`$/s, (_, pattern = '') => PATTERNS[pattern] ?? _],
  [
    /^must be greater than or equal to (\d+)s and less than or equal to (\d+)s$/,
    'must be $1 to $2 seconds',
  ],
  [/^must be greater than or equal to (\S+) and less than or equal to (\S+)$/, 'must be $1 to $2'],
  [
    /^must be greater than or equal to (\S+) and less than (\S+)$/,
    'must be from $1 on, and before $2',
  ],
  [
    /^must be greater than (\d\S*) and less than or equal to (\S+)$/,
    'must be more than $1, and at most $2',
  ],
  [/^must be greater than now/, 'must be in the future'],
  [/^must be less than (\d{4}-\S+)$/, 'must be before $1'],
  [/^must be greater than or equal to (\S+)$/, 'must be $1 or more'],
  [/^must be greater than (\S+)$/, 'must be more than $1'],
  [/^must be at least 1 characters$/, 'must not be empty'],
  [/^must be in list \[(.*)\]$/, 'must be one of $1'],
  [/^must equal true$/, 'must be true, or absent'],
  [/^repeated value must contain unique items$/, 'must not have a value twice'],
  [/^must contain at least 1 item\(s\)$/, 'must have at least one entry'],
  [/^must contain no more than (\d+) item\(s\)$/, 'must have at most $1 entries'],
  [/^map must be at most (\d+) entries$/, 'must have at most $1 entries'],
]

/** The text of a violation for the caller. A rule with a message of its own has that. */
export function wordsOf({ ruleId, message, field: path }: Violation): string {
  if (ruleId === 'required') return requiredWords(path)
  if (ruleId.startsWith('enum.')) return enumWords(path, message)
  for (const [text, words] of WORDINGS) {
    if (text.test(message)) return message.replace(text, words as string)
  }
  return message
}

function requiredWords(path: Path): string {
  const last = path.at(-1)
  if (last?.kind !== 'oneof') return 'is required'
  // JSON knows only its fields.
  return `is required: one of ${last.fields.map(({ jsonName }) => jsonName).join(', ')}`
}

/** The rules of enums state numbers, which JSON does not have. */
function enumWords(path: Path, message: string): string {
  const values = enumOf(path)?.values ?? []
  const numbers = /\[(.*)\]$/.exec(message)?.[1]?.split(', ')
  const allowed = values.filter(({ number }) => numbers?.includes(`${number}`) ?? number !== 0)
  return `must be one of ${allowed.map(({ name }) => name).join(', ')}`
}

function enumOf(path: Path): DescEnum | undefined {
  const field = path.findLast((part) => part.kind === 'field')
  return field?.enum
}
