import { type OpenApi, resolve, type Schema } from './document.ts'
import { escapeHtml } from './html.ts'

/** How deep objects inside objects are shown. */
const DEPTH_MAX = 5

/**
 * A table of the fields of an object, and of those inside it.
 *
 * @param of a request states what is required; what is sent to the reader, what may be absent
 * @returns '' if it has none
 */
export function fieldTable(
  document: OpenApi,
  schema: Schema,
  of: 'request' | 'answer',
  inline: (markdown: string) => string,
): string {
  const rows = [...fieldRows(document, schema, '', 0)]
  if (rows.length === 0) return ''
  const cells = rows.map(({ name, isRequired, field }) => {
    const mark = of === 'request' ? isRequired && 'required' : !isRequired && 'may be absent'
    const presence = mark ? ` <em>${mark}</em>` : ''
    const rules = rulesOf(field).map((rule) => `<span class="rule">${escapeHtml(rule)}</span>`)
    return `<tr><th scope="row"><code>${breakable(name)}</code><small>${typeOf(document, field)}${presence}</small></th><td>${inline(field.description ?? '')}${rules.join('')}</td></tr>`
  })
  return `<div class="scroll" tabindex="0"><table class="fields"><tbody>${cells.join('')}</tbody></table></div>`
}

interface FieldRow {
  /** With the names of the objects around it: `data.account[].bank_id`. */
  readonly name: string
  readonly field: Schema
  readonly isRequired: boolean
}

function* fieldRows(
  document: OpenApi,
  schema: Schema,
  prefix: string,
  depth: number,
): Generator<FieldRow> {
  const { properties = {}, required = [] } = resolve(document, schema)
  for (const [key, raw] of Object.entries(properties)) {
    const field = resolve(document, raw)
    const name = prefix + key
    yield { name, field, isRequired: required.includes(key) }
    if (depth + 1 === DEPTH_MAX) continue
    yield* fieldRows(document, field, `${name}.`, depth + 1)
    if (field.items) yield* fieldRows(document, field.items, `${name}[].`, depth + 1)
  }
}

function typeOf(document: OpenApi, { type, items, additionalProperties }: Schema): string {
  const names = [type ?? 'any'].flat().join(' or ')
  if (items) return `list of ${typeOf(document, resolve(document, items))}s`
  if (typeof additionalProperties === 'object')
    return `object of ${typeOf(document, additionalProperties)}s`
  return names
}

/** The rules, which a description may leave out. */
function rulesOf(schema: Schema): string[] {
  const { minLength, maxLength, minimum, maximum, maxItems, maxProperties } = schema
  const rules: string[] = []
  if (schema.const !== undefined) rules.push(`always ${JSON.stringify(schema.const)}`)
  if (schema.enum) rules.push(schema.enum.map((each) => JSON.stringify(each)).join(', '))
  if (maxLength !== undefined) rules.push(rangeOf(minLength ?? 0, maxLength, 'characters'))
  if (maximum !== undefined) rules.push(rangeOf(minimum ?? 0, maximum, ''))
  else if (minimum !== undefined) rules.push(`at least ${grouped(minimum)}`)
  if (maxItems !== undefined) rules.push(`at most ${maxItems} entries`)
  if (maxProperties !== undefined) rules.push(`at most ${maxProperties} pairs`)
  if (schema.format !== undefined) rules.push(schema.format)
  return rules
}

function rangeOf(from: number, to: number, unit: string): string {
  const range =
    from === to
      ? grouped(to)
      : from === 0
        ? `at most ${grouped(to)}`
        : `${grouped(from)} to ${grouped(to)}`
  return `${range} ${unit}`.trim()
}

const grouped = (value: number): string => value.toLocaleString('en')

/** A long name may be broken after its dots. */
const breakable = (name: string): string =>
  escapeHtml(name).replaceAll('.', '.<wbr>').replaceAll('_', '_<wbr>')
