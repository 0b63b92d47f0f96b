import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAst } from 'vite'
import { expect, test } from 'vitest'

const SRC = join(import.meta.dirname, '../../src')

const LEVELS: readonly string[] = ['debug', 'info', 'warn', 'error']

/** A text of the log in the source. */
interface Text {
  readonly level: string
  readonly text: string
}

/** It has the texts of its callers. */
const ADDRESS_SAMPLER = 'server/interceptors/observation.ts'

/** The folders without a log of the service. */
const OTHERS = /^(cli|console|client|openapi|banks\/(\w+\/)?fake|doctor)\//

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts') && !OTHERS.test(name) && name !== 'main.ts')
  .sort()

/** A node of the syntax tree, as ESTree names it. */
interface Node {
  readonly type: string
  readonly [property: string]: unknown
}

/** The texts of all calls of a logger in a file. Fails for a text that is not fixed. */
function textsOf(file: string): Text[] {
  const code = readFileSync(join(SRC, file), 'utf8')
  const nodes = [...nodesOf(parseAst(code, { lang: 'ts' }) as unknown as Node)]
  const declared = nodes.filter(({ type, init }) => type === 'VariableDeclarator' && init !== null)
  /** The closest declaration before a use. */
  const constant = ({ name, start }: Node): Node | undefined =>
    declared.findLast(
      ({ id, start: at }) => (id as Node)['name'] === name && Number(at) < Number(start),
    )?.['init'] as Node | undefined
  const resolve = (node: Node | undefined): string[] => {
    if (node === undefined) return []
    if (node.type === 'Literal' && typeof node['value'] === 'string') return [node['value']]
    if (node.type === 'ConditionalExpression') {
      return [node['consequent'], node['alternate']].flatMap((each) => resolve(each as Node))
    }
    return node.type === 'Identifier' ? resolve(constant(node)) : []
  }
  return nodes.flatMap((node): Text[] => {
    if (node.type !== 'CallExpression') return []
    const callee = node['callee'] as Node
    const given = node['arguments'] as readonly Node[]
    if (callee['name'] === 'createLogSampler' && file !== ADDRESS_SAMPLER) {
      return [sampledBy(given[0], resolve, file)]
    }
    if (callee['name'] === 'sampleByAddress') return [sampledBy(given[1], resolve, file)]
    const level = String((callee['property'] as Node | undefined)?.['name'])
    if (!LEVELS.includes(level) || !isLog(callee['object'] as Node)) return []
    const texts = resolve(given.at(-1))
    expect(texts, `${file}: the text of a line at ${level} is not fixed`).not.toEqual([])
    return texts.map((text) => ({ level, text }))
  })
}

function* nodesOf(value: unknown): Generator<Node> {
  if (typeof value !== 'object' || value === null) return
  if ('type' in value) yield value as Node
  for (const each of Object.values(value)) yield* nodesOf(each)
}

/** `createLogSampler({ level: 'info', text: '…' })`, also with spread objects. */
function sampledBy(
  options: Node | undefined,
  resolve: (node: Node) => string[],
  file: string,
): Text {
  const values = new Map<unknown, string | undefined>()
  for (const { type, key, value } of nodesOf(options)) {
    if (type === 'Property') values.set((key as Node)['name'], resolve(value as Node)[0])
  }
  const [level = '', text = ''] = [values.get('level'), values.get('text')]
  expect([level, text], `${file}: the text of a sampler is not fixed`).not.toContain('')
  return { level, text }
}

/** `log`, `this.#log`, `run.log`, `options.log` … */
function isLog(node: Node): boolean {
  const name = node.type === 'MemberExpression' ? (node['property'] as Node)['name'] : node['name']
  return name === 'log'
}

/** The rows of the table in the guide: texts between backticks, their levels, and a meaning. */
function documented(): Text[] {
  const guide = readFileSync(join(SRC, 'docs/observability.md'), 'utf8')
  const section = /\n## Logs\n(?<text>[\s\S]*?)(?=\n## |$)/.exec(guide)?.groups?.['text'] ?? ''
  const rows = section.matchAll(
    /^\| (?<texts>[^|]+) \| (?<levels>(?:debug|info|warn|error)(?:, (?:info|warn|error))*) \|/gm,
  )
  return [...rows].flatMap(({ groups }) =>
    groups!
      ['levels']!.split(', ')
      .flatMap((level) =>
        [...groups!['texts']!.matchAll(/`([^`]+)`/g)].map(([, text = '']) => ({ level, text })),
      ),
  )
}

const key = ({ level, text }: Text) => `${level}: ${text}`

test('every text of the log is in the guide with its levels, and the guide has no others', () => {
  const inSource = new Set(files.flatMap(textsOf).map(key))
  // The sampler's own line has the level of what it samples.
  for (const level of ['debug', 'info', 'warn']) {
    inSource.add(key({ level, text: 'similar lines left out' }))
  }
  const inGuide = new Set(documented().map(key))
  expect([...inGuide].sort()).toEqual([...inSource].sort())
})
