import { lstatSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { describe, expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '..')

/** The folders of src/ that each folder may import, besides itself and `BY_ALL`. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  core: [],
  protobuf: [],
  // Banks declare their settings; the configuration validates them.
  config: ['auth', 'banks', 'crypto'],
  postgres: [],
  crypto: ['postgres'],
  auth: ['crypto', 'postgres', 'businesses'],
  banks: ['config', 'postgres'],
  businesses: ['auth', 'postgres'],
  // Domains append to `events`, which imports no domain.
  events: ['auth', 'postgres'],
  accounts: ['auth', 'banks', 'businesses', 'crypto', 'events', 'postgres'],
  transactions: ['accounts', 'auth', 'banks', 'businesses', 'events', 'postgres'],
  settlement: ['accounts', 'auth', 'banks', 'businesses', 'events', 'postgres', 'transactions'],
  payouts: [
    'accounts',
    'auth',
    'banks',
    'businesses',
    'crypto',
    'events',
    'postgres',
    'settlement',
    'transactions',
  ],
  notifications: ['auth', 'banks', 'crypto', 'events', 'postgres', 'transactions'],
  reconciliation: [
    'accounts',
    'auth',
    'banks',
    'businesses',
    'notifications',
    'postgres',
    'transactions',
  ],
  webhooks: ['auth', 'banks', 'businesses', 'crypto', 'events', 'postgres'],
  relay: ['events', 'postgres'],
  // Views across the domains; only `app` imports it.
  overview: [
    'accounts',
    'auth',
    'banks',
    'businesses',
    'events',
    'notifications',
    'payouts',
    'postgres',
    'reconciliation',
    'settlement',
    'transactions',
    'webhooks',
  ],
  // The layer above the domains; only `app` imports it.
  sandbox: ['accounts', 'auth', 'banks', 'postgres', 'transactions'],
  thirdparty: [
    'accounts',
    'auth',
    'banks',
    'events',
    'payouts',
    'postgres',
    'settlement',
    'transactions',
    'webhooks',
  ],
  server: ['auth', 'config', 'postgres'],
  // Runs when documents are generated.
  openapi: ['auth', 'banks', 'events', 'server', 'webhooks'],
  // Writes the dashboards.
  ops: [],
  client: [],
  console: [],
  doctor: [
    'accounts',
    'auth',
    'banks',
    'client',
    'config',
    'crypto',
    'events',
    'notifications',
    'payouts',
    'postgres',
    'relay',
    'settlement',
    'transactions',
    'webhooks',
  ],
  cli: ['app', 'auth', 'banks', 'client', 'config', 'crypto', 'doctor', 'postgres'],
}

/** What every folder may import. */
const BY_ALL: readonly string[] = ['core', 'protobuf']

/** The composition root, which may import anything. */
const COMPOSITION = 'app'

/** Where generated code may be imported: the edges, where messages are read and written. */
const MAY_IMPORT_GEN = [
  /^(server|cli|client|console|openapi)\//,
  /^app\/compose-invokers\.ts$/,
  // Lists all services.
  /^protobuf\/contract-services\.ts$/,
  // The policies of methods are options in the contract.
  /^auth\/method-policy\.ts$/,
  /\/([\w-]+-)?(rpc|message)\.ts$/,
  /^events\/(subscribe|tail-window)\.ts$/,
  // `webhooks.ts` composes that domain's rpcs; the bodies read the payload of events; the catalogue
  // of kinds describes messages of the contract.
  /^webhooks\/(sender\/body|webhooks|list-event-kinds)\.ts$/,
]

interface Import {
  /** Relative to src/. */
  readonly from: string
  /** Relative to src/; `../gen/…` for generated code. */
  readonly to: string
  /** The statement up to the path: it has the imported names. */
  readonly text: string
}

const files = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((name) => /\.tsx?$/.test(name) && !lstatSync(join(ROOT, 'src', name)).isSymbolicLink())
  .sort()

const sources = new Map(files.map((file) => [file, readFileSync(join(ROOT, 'src', file), 'utf8')]))

const imports: readonly Import[] = files.flatMap((from) => {
  const source = sources.get(from) ?? ''
  const found = source.matchAll(
    /^(?:import|export)\b[^'"]*?from '(\.[^']+)'|^import '(\.[^']+)'|\bimport\('(\.[^']+)'\)/gm,
  )
  return [...found].map((match) => {
    const target = match[1] ?? match[2] ?? match[3] ?? ''
    const to = relative(join(ROOT, 'src'), join(ROOT, 'src', dirname(from), target))
    return { from, to, text: match[0] }
  })
})

/** `main.ts` starts the composition. */
const folderOf = (file: string) => {
  if (file === 'main.ts') return COMPOSITION
  return file.includes('/') ? (file.split('/', 1)[0] ?? '') : ''
}
const show = ({ from, to }: Import) => `${from} → ${to}`
const inside = imports.filter(({ to }) => !to.startsWith('..'))

test('finds the import statements', () => {
  expect(files.length).toBeGreaterThan(80)
  expect(imports.length).toBeGreaterThan(files.length)
  for (const { to } of inside) expect(files.includes(to) || /\.(json|css)$/.test(to), to).toBe(true)
})

test('every folder is in the table, and src/ has no other files than main.ts and README.md', () => {
  const folders = new Set(files.map(folderOf))
  expect(folders).not.toContain('')
  for (const folder of folders) {
    if (folder !== COMPOSITION) expect(Object.keys(MAY_IMPORT)).toContain(folder)
  }
})

describe('imports follow the layers', () => {
  test('between folders', () => {
    const wrong = inside.filter(({ from, to }) => {
      const [own, other] = [folderOf(from), folderOf(to)]
      if (own === COMPOSITION || own === other || BY_ALL.includes(other)) return false
      return !MAY_IMPORT[own]?.includes(other)
    })
    expect(wrong.map(show)).toEqual([])
  })

  test('without cycles, also of types', () => {
    const graph = new Map(files.map((file) => [file, [] as string[]]))
    for (const { from, to } of inside) graph.get(from)?.push(to)
    const done = new Set<string>()
    const visit = (file: string, path: readonly string[]): void => {
      expect(path, [...path, file].join(' → ')).not.toContain(file)
      if (done.has(file)) return
      for (const next of graph.get(file) ?? []) visit(next, [...path, file])
      done.add(file)
    }
    for (const file of files) visit(file, [])
  })
})

test('only a domain itself imports its statements and entities', () => {
  expect(files.filter((file) => entitiesOf(file).length > 0).length).toBeGreaterThan(10)
  const wrong = inside.filter(({ from, to, text }) => {
    if (folderOf(from) === folderOf(to) || folderOf(from) === COMPOSITION) return false
    const names = text.match(/\w+/g) ?? []
    const isEntity = names.some((name) => entitiesOf(to).includes(name))
    if (isEntity || to.endsWith('.entity.ts')) return !from.endsWith('.entity.ts')
    return /\/(store|verification-store|queries)\.ts$/.test(to) && from !== MEASURES
  })
  expect(wrong.map(show)).toEqual([])
})

/** The names of the entities that a file declares, and of the types of their rows. */
function entitiesOf(file: string): readonly string[] {
  const declared = (sources.get(file) ?? '').matchAll(
    /^export (?:const (\w+) = defineEntity\(|type (\w+) = InferEntity<)/gm,
  )
  return [...declared].map(([, entity, row]) => entity ?? row ?? '')
}

/** It measures statements in a transaction that it rolls back, with rows that it needs for that. */
const MEASURES = 'doctor/measure-database.ts'

/** The folder that declares each table, and each view of the migrations. */
const tableOwners = new Map([
  ['money_event', 'events'],
  ['sequencer', 'events'],
  ...files.flatMap((file) => {
    const declared = (sources.get(file) ?? '').matchAll(/\btableName: '(\w+)'/g)
    if (entitiesOf(file).length === 0) return []
    return [...declared].map(([, table = '']) => [table, folderOf(file)] as const)
  }),
])

/**
 * Into these, a domain above inserts by the statement of its own change, so that both are one commit. Rows are never
 * changed, and the database refuses those that contradict others.
 */
const APPENDED = ['outbox', 'ledger_posting']

interface Access {
  readonly file: string
  readonly verb: 'read' | 'insert' | 'write'
  readonly table: string
}

/** How the SQL of a file uses tables. */
function accessesOf(file: string): Access[] {
  const code = (sources.get(file) ?? '').replace(/\/\*[\s\S]*?\*\/|^\s*(?:\/\/|--).*$/gm, '')
  const strings = [...code.matchAll(/`[^`]*`|'[^'\n]*'|"[^"\n]*"/g)].map(([text]) => text)
  const uses =
    /\b(?:(insert\s+into)|(delete\s+from|update|truncate)|from|join|table)\s+(?:only\s+)?"?(\w+)"?/g
  return strings
    .flatMap((text) => [...text.matchAll(uses)])
    .map(([, insert, write, table = '']) => {
      return { file, verb: insert ? 'insert' : write ? 'write' : 'read', table } as const
    })
    .filter(({ table }) => tableOwners.has(table))
}

describe('the tables that SQL names', () => {
  const accesses = files
    .filter((file) => !file.startsWith('postgres/migrations/') && file !== MEASURES)
    .flatMap(accessesOf)
  const foreign = accesses.filter(({ file, table }) => folderOf(file) !== tableOwners.get(table))
  const text = ({ file, verb, table }: Access) => `${file}: ${verb} ${table}`

  test('are found', () => {
    expect(tableOwners.size).toBeGreaterThan(30)
    for (const verb of ['read', 'insert', 'write'] as const) {
      expect(accesses.filter((access) => access.verb === verb).length).toBeGreaterThan(30)
    }
  })

  test('are those of the own domain, and, to read them, those of the domains below it', () => {
    const above = foreign.filter(({ file, table }) => {
      return !MAY_IMPORT[folderOf(file)]?.includes(tableOwners.get(table) ?? '')
    })
    expect([...new Set(above.map(text))]).toEqual([])
  })

  test('are written by their own domain, which others only append to', () => {
    const written = foreign.filter(({ verb, table }) => {
      return verb !== 'read' && !(verb === 'insert' && APPENDED.includes(table))
    })
    expect([...new Set(written.map(text))]).toEqual([])
  })
})

describe('the name of a prepared statement', () => {
  const CONSTANT = /^([A-Z_]+( [-+] 1)?|\w+\(('[^']*'(, )?)+\))$/
  const statements = files.flatMap((file) => {
    const found = (sources.get(file) ?? '').matchAll(
      /\bname: (['`])([^'`]+)\1,\n(?:\s*(?:\/\/|query_timeout:).*\n)*\s*text:\s*('[^']*'|"[^"]*"|`[^`]*`|\w+)/g,
    )
    return [...found].map(([, , name = '', text = '']) => ({ file, name, text }))
  })

  test('stands for one statement', () => {
    expect(statements.length).toBeGreaterThan(100)
    const names = statements.map(({ name }) => name)
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([])
  })

  test('stands for one text, which no argument changes', () => {
    const varying = statements.filter(({ name, text }) => {
      const values = [...text.matchAll(/\$\{([^}]*)\}/g)].map(([, value = '']) => value)
      return !name.includes('${') && values.some((value) => !CONSTANT.test(value))
    })
    expect(varying).toEqual([])
  })
})

test('generated code is imported only at the edges', () => {
  const wrong = imports.filter(
    ({ from, to }) => to.startsWith('../gen/') && !MAY_IMPORT_GEN.some((edge) => edge.test(from)),
  )
  expect(wrong.map(show)).toEqual([])
})

test('src/ imports no other files outside of it, and no tests', () => {
  const wrong = imports.filter(
    ({ to }) => to.startsWith('..') && !/^\.\.\/(gen|package\.json)/.test(to),
  )
  expect(wrong.map(show)).toEqual([])
})

test('the rules of a domain import neither the database nor the protocol', () => {
  const rules = files.filter((file) => {
    const [folder = '', name = ''] = file.split('/')
    return (
      ['account.ts', 'transaction.ts', 'nuban.ts', 'bank.ts', 'retry.ts'].includes(name) &&
      folder !== 'cli'
    )
  })
  expect(rules.length).toBeGreaterThan(3)
  for (const file of rules) {
    expect([file, sources.get(file)]).toEqual([
      file,
      expect.not.stringMatching(/from '(pg|@mikro-orm|@connectrpc|fastify)/),
    ])
    const wrong = imports.filter(({ from, to }) => from === file && to.startsWith('../gen/'))
    expect(wrong.map(show)).toEqual([])
  }
})

test('the service does not contain the banks of this machine', () => {
  const isFake = (file: string) => /^banks\/(\w+\/)?fake(\/|\.ts$)/.test(file)
  const others = imports.filter(({ from, to }) => isFake(to) && !isFake(from))
  expect(others.map(({ from }) => from)).toEqual(['cli/service/fake-banks.ts'])
})

test('only the start and the command line read the environment', () => {
  const readers = files.filter((file) => /\bprocess\.env\b/.test(sources.get(file) ?? ''))
  expect(
    readers.filter((file) => !/^main\.ts|^app\/(worker|supervise-workers)\.ts|^cli\//.test(file)),
  ).toEqual([])
})

test('domains read the time from the injected clock', () => {
  const readers = files.filter((file) =>
    /\bDate\.now\(\)|\bnew Date\(\)/.test(sources.get(file) ?? ''),
  )
  const domains = readers.filter((file) => Object.keys(MAY_IMPORT).includes(folderOf(file)))
  // The expiry of certificates depends on the real time.
  const exempt =
    /^(app|cli|core|doctor|server|postgres|client|console)\/|^webhooks\/sender\/connect\.ts$/
  expect(domains.filter((file) => !exempt.test(file))).toEqual([])
})

test('a transaction uses its own connection only', () => {
  // A second connection of the same pool may never come free, because others wait for one in the same way.
  const calls = files.flatMap((file) => {
    const source = sources.get(file) ?? ''
    return [...source.matchAll(/\b(?:transactional|inTransaction)\(\s*(?:[\w.]+,\s)?/g)].map(
      ({ index, 0: { length } }) => ({ file, body: argumentsAt(source, index + length) }),
    )
  })
  expect(calls.length).toBeGreaterThan(50)
  const wrong = calls.filter(({ body }) => /\b(?:\w+Pool|orm\.em|database)\b/.test(body))
  // At the start, before any call.
  expect(wrong.map(({ file }) => file)).toEqual(['app/initialize.ts'])
})

/** The text from a place within the brackets of a call to their end. */
function argumentsAt(source: string, from: number): string {
  let depth = 1
  let at = from
  for (; depth > 0 && at < source.length; at += 1) {
    if (source[at] === '(') depth += 1
    if (source[at] === ')') depth -= 1
  }
  return source.slice(from, at)
}
