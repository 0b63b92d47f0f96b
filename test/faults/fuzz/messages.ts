import { create, type DescField, type DescMessage, ScalarType, toBinary } from '@bufbuild/protobuf'
import type { Random } from './random.ts'
import { hostileText, textFor, type World } from './words.ts'

/** Messages inside messages end at this depth. */
const DEPTH_MAX = 4

const LARGE_LIST = 1_200

/** A value of a field as JavaScript has it in messages; what protobuf can write, however odd. */
function valueFor(random: Random, world: World, field: DescField, depth: number): unknown {
  switch (field.fieldKind) {
    case 'scalar':
      return scalarOf(random, world, field.scalar, field.name)
    case 'enum':
      return random.chance(random.hostility)
        ? random.pick([0, 99, -1, 2 ** 31 - 1])
        : random.pick(field.enum.values.slice(1)).number
    case 'message':
      return messageOf(random, world, field.message, depth + 1)
    case 'list': {
      const length = random.chance(0.003) ? LARGE_LIST : random.int(4)
      return Array.from({ length }, () => itemOf(random, world, field, depth))
    }
    default:
      return {}
  }
}

function itemOf(
  random: Random,
  world: World,
  field: DescField & { fieldKind: 'list' },
  depth: number,
): unknown {
  if (field.listKind === 'message') return messageOf(random, world, field.message, depth + 1)
  if (field.listKind === 'enum') return random.int(6)
  return scalarOf(random, world, field.scalar, field.name)
}

function scalarOf(random: Random, world: World, scalar: ScalarType, name: string): unknown {
  // A business that limits itself would get only that error from then on.
  if (name === 'rate_limit_per_second') return 0
  switch (scalar) {
    case ScalarType.STRING:
      return textFor(random, world, name)
    case ScalarType.BOOL:
      return random.chance(0.5)
    case ScalarType.BYTES:
      return random.bytes(random.int(64))
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      return random.pick([0, -0, 1.5, Number.NaN, Number.POSITIVE_INFINITY])
    case ScalarType.INT64:
    case ScalarType.SINT64:
    case ScalarType.SFIXED64:
      return random.pick(random.chance(random.hostility) ? LONGS : TAME_LONGS)
    case ScalarType.UINT64:
    case ScalarType.FIXED64:
      return random.pick(LONGS.map((long) => (long < 0n ? 2n ** 64n - 1n : long)))
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      return random.pick([0, 1, 2 ** 32 - 1])
    default:
      return random.pick(random.chance(random.hostility) ? INTS : TAME_INTS)
  }
}

const TAME_INTS = [0, 1, 10, 50, 200]
const TAME_LONGS = [1n, 100n, 150_050n, 1_760_000_000n]
const INTS = [0, 1, 10, 50, 200, 201, 1_000, -1, 999_999_999, 2 ** 31 - 1, -(2 ** 31)]
const LONGS = [
  0n,
  1n,
  100n,
  150_050n,
  -1n,
  9_007_199_254_740_993n,
  2n ** 63n - 1n,
  -(2n ** 63n),
  1_760_000_000n,
  253_402_300_799n,
  253_402_300_800n,
  -62_135_596_801n,
  8_640_000_000_001n,
]

/** A message with about as many fields as a caller would send. */
export function messageOf(random: Random, world: World, schema: DescMessage, depth = 0) {
  const message = create(schema) as unknown as Record<string, unknown>
  if (depth > DEPTH_MAX) return message
  for (const member of schema.members) {
    if (random.chance(random.hostility / 2)) continue
    if (member.kind === 'oneof') {
      const field = random.pick(member.fields)
      const value = valueFor(random, world, field, depth)
      message[member.localName] = { case: field.localName, value }
    } else {
      message[member.localName] = valueFor(random, world, member, depth)
    }
  }
  return message
}

/** A message in binary: most as they should be, the others with something done to their bytes. */
export function binaryOf(random: Random, world: World, schema: DescMessage): Buffer {
  if (random.chance(0.05)) return random.bytes(random.int(300))
  const bytes = Buffer.from(toBinary(schema, messageOf(random, world, schema) as never))
  return random.chance(random.hostility) ? mutate(random, bytes) : bytes
}

/** Flips, cuts, doubles or adds bytes. */
export function mutate(random: Random, bytes: Buffer): Buffer {
  const at = random.int(bytes.length + 1)
  switch (random.int(6)) {
    case 0: {
      const changed = Buffer.from(bytes)
      for (let flips = 1 + random.int(4); flips > 0 && bytes.length > 0; flips--) {
        const index = random.int(bytes.length)
        changed[index] = (changed[index] ?? 0) ^ (1 << random.int(8))
      }
      return changed
    }
    case 1:
      return bytes.subarray(0, at)
    case 2:
      return Buffer.concat([bytes, bytes])
    case 3:
      return Buffer.concat([
        bytes.subarray(0, at),
        random.bytes(1 + random.int(12)),
        bytes.subarray(at),
      ])
    case 4:
      // Lengths and varints that go on for ever; groups that open and do not close.
      return Buffer.concat([bytes, random.pick([VARINT, LENGTH, GROUPS])])
    default:
      return Buffer.concat([bytes.subarray(at), bytes.subarray(0, at)])
  }
}

const VARINT = Buffer.alloc(40, 0xff)
const LENGTH = Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0x07])
const GROUPS = Buffer.alloc(2_000, 0x0b)

/** The JSON form of a message: values of the right kind, of a wrong one, and too many of them. */
export function jsonOf(random: Random, world: World, schema: DescMessage, depth = 0): unknown {
  if (depth > DEPTH_MAX) return {}
  const json: Record<string, unknown> = {}
  for (const field of schema.fields) {
    if (random.chance(random.hostility / 2) || (field.oneof && random.chance(0.6))) continue
    const key = random.chance(0.8) ? field.jsonName : field.name
    json[key] = random.chance(random.hostility / 2)
      ? wrongValue(random)
      : jsonValueOf(random, world, field, depth)
  }
  if (random.chance(random.hostility / 4)) json[hostileText(random)] = wrongValue(random)
  return json
}

function jsonValueOf(random: Random, world: World, field: DescField, depth: number): unknown {
  if (field.fieldKind === 'message') {
    if (field.message.typeName === 'google.protobuf.Timestamp')
      return textFor(random, world, 'from')
    if (field.message.typeName === 'google.protobuf.Duration') {
      return random.pick(['1s', '-1s', '315576000001s', '0.000000001s', '1'])
    }
    return jsonOf(random, world, field.message, depth + 1)
  }
  if (field.fieldKind === 'list' && field.listKind === 'message') {
    const length = random.int(4)
    return Array.from({ length }, () => jsonOf(random, world, field.message, depth + 1))
  }
  const value = valueFor(random, world, field, depth)
  if (typeof value === 'bigint') return random.chance(0.5) ? value.toString() : Number(value)
  return Buffer.isBuffer(value) ? value.toString('base64') : value
}

function wrongValue(random: Random): unknown {
  return random.pick([
    null,
    true,
    0,
    -1,
    1.5,
    1e308,
    2 ** 53,
    '',
    'x',
    [],
    {},
    [[]],
    [null],
    { a: { b: [] } },
    hostileText(random),
    [hostileText(random)],
    { [hostileText(random)]: 1 },
  ])
}

/** A body of JSON: most of them objects, and some that no writer of JSON would make. */
export function jsonBodyOf(random: Random, world: World, schema: DescMessage): Buffer {
  const text = JSON.stringify(jsonOf(random, world, schema)) ?? 'null'
  if (random.chance(1 - random.hostility)) return Buffer.from(text)
  const odd: readonly (() => Buffer)[] = [
    () => Buffer.from(JSON.stringify(wrongValue(random)) ?? ''),
    () => mutate(random, Buffer.from(text)),
    () => Buffer.from(`\ufeff${text}`),
    () => Buffer.from(`${text}${text}`),
    () => Buffer.from('['.repeat(20_000)),
    () => Buffer.from('{"a":'.repeat(9_000)),
    () => Buffer.from(`{"__proto__":${text},"constructor":{"prototype":{"x":1}}}`),
    () => Buffer.from(`{"reference":"a","reference":1,"session_id":1e999,"amount":-0}`),
    () => Buffer.from(`{"session_id":"${'x'.repeat(70_000)}"}`),
    () => random.bytes(random.int(500)),
    () => Buffer.from(text, 'utf16le'),
    () => Buffer.alloc(0),
  ]
  return random.pick(odd)()
}
