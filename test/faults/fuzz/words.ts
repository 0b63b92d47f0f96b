import type { Random } from './random.ts'

/** What exists in the service that is called, so that requests get beyond the first check. */
export interface World {
  readonly businessId: string
  readonly key: string
  readonly revokedKey: string
  readonly adminToken: string
  readonly accountNumber: string
  readonly reference: string
  readonly sessionId: string
  readonly endpointId: string
  readonly deliveryId: string
  readonly keyId: string
}

/** A text for a field: one that fits its name, or any that has broken something somewhere. */
export function textFor(random: Random, world: World, name: string): string {
  if (random.chance(random.hostility)) return hostileText(random)
  const known = FITTING[name]
  if (known) return known(random, world)
  return random.pick([...Object.values(world), 'Ada', 'x', ''])
}

export function hostileText(random: Random): string {
  const text = random.pick(HOSTILE)
  if (random.chance(0.2)) return text + random.pick(HOSTILE)
  if (random.chance(0.1)) return text.repeat(1 + random.int(200))
  if (random.chance(0.2)) return random.bytes(random.int(60)).toString('latin1')
  return text
}

type Fitting = (random: Random, world: World) => string

const name: Fitting = (random) => random.pick(['Ada', 'Bọ́lá', '李', 'Ngozi-Ann', "O'Brien"])
const time: Fitting = (random) =>
  random.pick([
    '2026-11-20 10:00:00',
    '2026-11-20T10:00:00Z',
    '0001-01-01T00:00:00Z',
    '9999-12-31T23:59:59.999999999+14:00',
    '0000-01-01 00:00:00',
  ])

/** By the name in the contract. Nothing here makes the sandbox banks fail or wait. */
const FITTING: Readonly<Record<string, Fitting>> = {
  business_id: (_, world) => world.businessId,
  business_ids: (_, world) => world.businessId,
  reference: (random, world) => random.pick([world.reference, `order-${random.int(1_000)}`]),
  email: (random) => random.pick(['ada@example.com', 'a@b.co', `${'x'.repeat(60)}@example.com`]),
  phone: (random) => random.pick(['08012345678', '+2348012345678', '+4915112345678']),
  first_name: name,
  last_name: name,
  name,
  alias: (random) => random.pick(['Acme', 'Ọjà']),
  bank: (random) => random.pick(['9PSB', 'SAFEHAVEN', 'PROVIDUS', 'PALMPAY']),
  id_type: (random) => random.pick(['nin', 'bvn']),
  id_number: (random) => String(10_000_000_000 + random.int(1_000)),
  session_id: (random, world) => random.pick([world.sessionId, `s-${random.int(100_000)}`]),
  account_number: (_, world) => world.accountNumber,
  page_token: (random) =>
    random.pick([
      '',
      Buffer.from(JSON.stringify(['acc_0'])).toString('base64url'),
      Buffer.from(JSON.stringify(['2026-01-01', 'txn_1'])).toString('base64url'),
      Buffer.from(JSON.stringify(['9'.repeat(40), '\ud800'])).toString('base64url'),
      Buffer.from(JSON.stringify([null, {}])).toString('base64url'),
    ]),
  endpoint_id: (_, world) => world.endpointId,
  delivery_id: (_, world) => world.deliveryId,
  key_id: (_, world) => world.keyId,
  url: (random) => random.pick(['http://127.0.0.1:9/hook', 'https://hooks.invalid/a?b=c']),
  kinds: (random) => random.pick(['PAYMENT_NOTIFICATION', 'ACCOUNT_CREATED', 'NO_SUCH_KIND']),
  amount: (random) => random.pick(['1500.50', '1000.01', '1000.02', '0.01', '1.005']),
  status: (random) => random.pick(['SUCCESS', 'PENDING', 'FAILED', 'REVERSED']),
  from: time,
  to: time,
  cursor: (random) =>
    random.pick([
      'c1.1.0',
      Buffer.from('1.1.0').toString('base64url'),
      Buffer.from([1, 0, 0, 0, 1, 255, 255, 255, 255, 255, 255, 255, 255]).toString('base64url'),
    ]),
}

const HOSTILE: readonly string[] = [
  '',
  ' ',
  '\t\n',
  '\0',
  'a\0b',
  '\u202e',
  '\ufeff',
  '\u{10ffff}',
  '\ud800',
  '\udc00x',
  "' or 1=1--",
  '"; drop table account;',
  '\\',
  '%',
  '%00',
  '%s%n',
  '{{7*7}}',
  '../../etc/passwd',
  '<script>alert(1)</script>',
  '{"$ne":null}',
  '\r\nX-Injected: 1',
  '__proto__',
  'constructor',
  'toString',
  'null',
  'undefined',
  'NaN',
  'true',
  '[]',
  '{}',
  '0',
  '-1',
  '1e309',
  '9'.repeat(30),
  '00000000000',
  '0x10',
  '१२३४५६७८९०१',
  '٠١٢٣٤٥٦٧٨٩٠',
  'x'.repeat(101),
  'x'.repeat(255),
  'x'.repeat(1_001),
  'é'.repeat(5_000),
  'a@'.repeat(200),
  'http://169.254.169.254/',
  'https://[::1]/',
  'http://0x7f.1/',
  'file:///etc/passwd',
  'http://',
  '𝕳𝖊𝖑𝖑𝖔',
  'ﷺ'.repeat(50),
  'Z̸̡̢̧̛'.repeat(30),
  '👩‍👩‍👧‍👦',
  'İ',
  'ß',
  '\u0301',
]
