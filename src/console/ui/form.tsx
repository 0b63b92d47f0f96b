import { type DescEnum, type DescField, type DescMessage, ScalarType } from '@bufbuild/protobuf'
import { durationFromMs, type Timestamp, timestampFromMs } from '@bufbuild/protobuf/wkt'
import { useQuery } from '@connectrpc/connect-query'
import { useDeferredValue, useId, useState } from 'react'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { formatAmount } from '../../core/money.ts'
import { FORM_RULES } from '../form-rules.ts'
import { type Choice, enumFieldChoices, enumName, enumValue } from '../format/enums.ts'
import { parseNaira } from '../format/money.ts'
import { HOUR } from '../format/time.ts'
import { useViewScope } from '../session/view-scope.tsx'
import { titleOf } from './columns.tsx'
import { AreaField, CheckField, ChecksField, SelectField, TextField } from './fields.tsx'

/** The properties of a field that do not come from the contract: another label, or more. */
type FieldSpec =
  | string
  | {
      readonly label?: string
      readonly hint?: string
      readonly placeholder?: string
      readonly required?: boolean
      /** The initial value, in place of the value in the message. */
      readonly value?: string | number
      /** The choices, in place of those that the contract allows. */
      readonly choices?: readonly Choice[]
      readonly values?: readonly string[]
      readonly rows?: number
      readonly min?: number
      readonly max?: number
      readonly onChoose?: (value: string) => void
    }

/** Fields by their paths in the request's JSON, in order. */
type FieldRow = Readonly<Record<string, FieldSpec>>

/** The fields of a form. In a list, the fields of each member are in one row. */
export type FieldSpecs = FieldRow | readonly FieldRow[]

/**
 * The fields of a request: their controls, limits and choices come from its descriptor and its rules.
 *
 * @param of the message at which the paths begin
 * @param values the initial values of the fields, such as the edited object
 */
export function Fields({
  of,
  show,
  values = {},
}: {
  readonly of: DescMessage
  readonly show: FieldSpecs
  readonly values?: object
}) {
  if (Array.isArray(show)) {
    return show.map((row: FieldRow) => (
      <div
        key={Object.keys(row).join()}
        className={Object.keys(row).length > 1 ? 'fields' : undefined}
      >
        <Fields of={of} show={row} values={values} />
      </div>
    ))
  }
  return Object.entries(show as FieldRow).map(([path, spec]) => (
    <FieldOf
      key={path}
      path={path}
      field={fieldAt(of, path)}
      spec={typeof spec === 'string' ? { label: spec } : spec}
      value={path
        .split('.')
        .reduce<unknown>((at, name) => (at as Shape | undefined)?.[name], values)}
    />
  ))
}

type Shape = Readonly<Record<string, unknown>>

interface FieldOfProps {
  readonly path: string
  readonly field: DescField | undefined
  readonly spec: Exclude<FieldSpec, string>
  readonly value: unknown
}

function FieldOf({ path, field, spec, value }: FieldOfProps) {
  if (field === undefined) throw new Error(`the contract has no field ${path}`)
  const kind = kindOf(field)
  const { label, choices, values = [], onChoose, rows, ...given } = spec
  const { choices: allowed, ...rules } =
    FORM_RULES[`${field.parent.typeName}.${field.localName}`] ?? {}
  const { min: _min, max: _max, pattern, ...limits } = rules
  const shared = { name: path, label: label || titleOf(field.localName) }
  const text = String(given.value ?? textOf(field, value))
  if (kind === 'flag') return <CheckField {...shared} isOn={value === true} />
  if (kind === 'enum' || (choices && kind !== 'lines')) {
    const offered = choices ?? enumFieldChoices(field.enum as DescEnum)
    const choose = onChoose && { onChoose }
    return <SelectField {...shared} {...given} {...choose} choices={offered} value={text} />
  }
  if (kind === 'lines' && (choices || allowed)) {
    const offered = choices ?? (allowed ?? []).map((each) => ({ value: each, label: each }))
    const required = given.required ?? rules.required ?? false
    return (
      <ChecksField {...shared} {...given} required={required} choices={offered} values={values} />
    )
  }
  if (kind === 'lines' || kind === 'pairs' || rows) {
    // The limits of a list apply to its members.
    const { maxLength: _length, ...listed } = limits
    const height = rows && { rows }
    const own = kind === 'text' ? limits : listed
    return <AreaField {...shared} {...own} {...height} {...given} value={text} />
  }
  return (
    <TextField
      {...shared}
      {...(kind === 'whole' ? rules : limits)}
      {...(kind === 'text' && pattern !== undefined && { pattern })}
      {...(kind === 'percent' && { pattern: '\\d{1,3}([.]\\d{1,2})?' })}
      {...(kind === 'naira' && { check: amountFault })}
      {...given}
      type={TYPES[kind ?? 'text'] ?? typeOf(field.localName)}
      value={text}
    />
  )
}

const TYPES = {
  whole: 'number',
  hours: 'number',
  time: 'datetime-local',
  naira: 'text',
  percent: 'text',
} as Readonly<Record<string, 'number' | 'datetime-local' | 'text'>>

function typeOf(name: string) {
  if (/secret$|^password$/i.test(name)) return 'password'
  if (/url$/i.test(name)) return 'url'
  if (name === 'email') return 'email'
  return name === 'phone' ? 'tel' : 'text'
}

function amountFault(text: string): string | undefined {
  return parseNaira(text) === undefined ? 'An amount such as 5,000.50' : undefined
}

/** The kind of control for a field; undefined: the field needs custom controls. */
function kindOf(field: DescField) {
  const { localName: name } = field
  if (field.fieldKind === 'list') return field.listKind === 'scalar' ? 'lines' : undefined
  if (field.fieldKind === 'map') return 'pairs'
  if (field.fieldKind === 'enum') return 'enum'
  if (field.fieldKind === 'message') {
    if (field.message.typeName === 'google.protobuf.Timestamp') return 'time'
    return field.message.typeName === 'google.protobuf.Duration' ? 'hours' : undefined
  }
  if (field.scalar === ScalarType.BOOL) return 'flag'
  if (field.scalar === ScalarType.STRING) return 'text'
  if (name.endsWith('Minor')) return 'naira'
  return name.endsWith('BasisPoints') ? 'percent' : 'whole'
}

/** The text of a control for a value of the contract. */
function textOf(field: DescField, value: unknown): string {
  if (value === undefined) return ''
  switch (kindOf(field)) {
    case 'lines':
      return (value as readonly string[]).join('\n')
    case 'naira':
      return value === 0n ? '' : formatAmount(value as bigint)
    case 'percent':
      return value === 0 ? '' : `${(value as number) / 100}`
    case 'enum':
      return enumName(field.enum as DescEnum, value as number)
    default:
      return String(value)
  }
}

/** The field at a path of a request's JSON: `options.authentication.basic.username`. */
function fieldAt(of: DescMessage, path: string): DescField | undefined {
  let message: DescMessage | undefined = of
  let field: DescField | undefined
  for (const name of path.split('.')) {
    field = message?.field[name]
    message = field?.fieldKind === 'message' ? field.message : undefined
  }
  return field
}

/** Reads the controls of a form into a request. Controls without a field in the message are left out. */
export function readRequest(of: DescMessage, form: HTMLFormElement): object {
  const data = new FormData(form)
  const request: Record<string, unknown> = {}
  const names = [...form.elements].map((control) => (control as HTMLInputElement).name)
  for (const path of new Set(names)) {
    const field = fieldAt(of, path)
    const value = field && readValue(field, data, path)
    if (value !== undefined) put(request, of, path.split('.'), value)
  }
  return request
}

function readValue(field: DescField, data: FormData, path: string): unknown {
  const values = readForm(data)
  const text = values.text(path)
  switch (kindOf(field)) {
    case 'text':
      return text
    case 'lines':
      return values.lines(path)
    case 'pairs':
      return Object.fromEntries(values.lines(path).map((line) => pairOf(line, '=')))
    case 'flag':
      return data.has(path)
    case 'whole':
      return Number.parseInt(text, 10) || 0
    case 'naira':
      return parseNaira(text) ?? 0n
    case 'percent':
      return Math.round(Number(text) * 100)
    case 'enum':
      return enumValue(field.enum as DescEnum, text) ?? 0
    case 'hours':
      return durationFromMs((Number.parseInt(text, 10) || 0) * HOUR)
    case 'time':
      return readLocalTime(text)
    default:
      return undefined
  }
}

/** Sets a value at its path; a member of a oneof is set as its case. */
function put(
  into: Record<string, unknown>,
  message: DescMessage,
  [name = '', ...rest]: readonly string[],
  value: unknown,
): void {
  const field = message.field[name]
  if (field === undefined) return
  const inner = field.fieldKind === 'message' && rest.length > 0 ? field.message : undefined
  const { oneof } = field
  if (oneof) into[oneof.localName] ??= { case: name, value: {} }
  const target = (oneof ? into[oneof.localName] : into) as Record<string, unknown>
  const key = oneof ? 'value' : name
  if (inner === undefined) target[key] = value
  else {
    target[key] ??= {}
    put(target[key] as Record<string, unknown>, inner, rest, value)
  }
}

function readLocalTime(text: string): Timestamp | undefined {
  const ms = new Date(text).getTime()
  return Number.isNaN(ms) ? undefined : timestampFromMs(ms)
}

/** Splits a line such as `key=value`; without the sign, the value is empty. */
export function pairOf(line: string, sign: string): readonly [string, string] {
  const at = line.indexOf(sign)
  return at < 0 ? [line, ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()]
}

/** The values of the controls of a form, by name. */
export interface FormValues {
  /** The trimmed text; empty: nothing was typed. */
  text(name: string): string
  /** The lines that are not empty, of one or several controls with the name. */
  lines(name: string): string[]
}

export function readForm(form: FormData): FormValues {
  return {
    text: (name) => String(form.get(name) ?? '').trim(),
    lines: (name) =>
      form
        .getAll(name)
        .flatMap((each) => String(each).split('\n'))
        .map((line) => line.trim())
        .filter((line) => line !== ''),
  }
}

/** The most businesses that are suggested; typing finds the others. */
const SUGGESTED_MAX = 20

/** The business of a request: the shown business, or a typed one. */
export function BusinessField() {
  const { businessId } = useViewScope()
  const [typed, setTyped] = useState('')
  const query = useDeferredValue(typed.trim())
  const list = useId()
  const found = useQuery(
    BusinessService.method.listBusinesses,
    { query, pageSize: SUGGESTED_MAX },
    { enabled: businessId === '', placeholderData: (previous) => previous },
  )
  if (businessId !== '') return <input type="hidden" name="businessId" value={businessId} />
  return (
    <div onInput={({ target }) => setTyped((target as HTMLInputElement).value)}>
      <TextField
        name="businessId"
        label="Business"
        placeholder="Name, alias or biz_…"
        required
        list={list}
        check={(text) => (text.startsWith('biz_') ? undefined : 'Choose a business from the list')}
      />
      <datalist id={list}>
        {found.data?.businesses.map((business) => (
          <option key={business.id} value={business.id}>
            {business.name}
          </option>
        ))}
      </datalist>
    </div>
  )
}
