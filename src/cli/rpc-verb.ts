import {
  create,
  type DescField,
  type DescMessage,
  type DescMethodUnary,
  type MessageInitShape,
  type MessageShape,
} from '@bufbuild/protobuf'
import type { CallOptions } from '@connectrpc/connect'
import type { Command, Option } from 'commander'
import { type Columns, columnsOf, nestedColumns } from './columns.ts'
import { type Action, confirmAction, type YesOption } from './confirm.ts'
import { amount, durationSeconds, enumRule, enumsRule, numberFrom, time } from './options.ts'
import { fields, note, table } from './output.ts'
import {
  printResponse,
  type Service,
  type ServiceOptions,
  serviceAction,
} from './service-action.ts'
import { calling, type OptionRule, type OptionRules, requireFlags, type Verb } from './verb.ts'

/** Lines of help texts that many verbs share. Without `--business`, it is the demo business. */
export const BUSINESS =
  '--business <id>  the business (default: the demo business of a local service)'
export const MODE = `--live  live mode only
  --test  test mode only`
export const PAGE = `--limit <count>  page size, 1 to 200 (default: 50)
  --page-token <token>  continue after an earlier page`

/** The largest page of a list, and the most empty pages that are skipped before the command shows one. */
const PAGE_SIZE_MAX = 200
const EMPTY_PAGES_MAX = 200

/** What a verb that is a method needs beyond the descriptors of its request and response. */
interface RpcVerb<Input extends DescMessage, Output extends DescMessage, Options> {
  /** Flags that differ from the default: the field that they set, null for none, and how they are read. */
  readonly flags?: Readonly<Record<string, string | null | FlagRule>>
  /** Fields of the request that several flags decide. With it, a flag may be of no field. */
  request?(
    options: Options,
    service: Service,
    operand: string,
  ): MessageInitShape<Input> | Promise<MessageInitShape<Input>>
  /** What the operator confirms; its target is the operand unless it states another. */
  readonly confirms?: Confirmed | ((request: MessageShape<Input>, service: Service) => Confirmed)
  /** Makes the response whole before it is shown. */
  completes?(response: MessageShape<Output>, service: Service): Promise<MessageShape<Output>>
  /** Columns of a message of the response, or of the response itself; or its text. */
  readonly shows?:
    | Columns<never>
    | ((
        response: MessageShape<Output>,
        options: Options & CommonOptions,
        service: Service,
      ) => string)
  /** Columns of the response, after those of its message. */
  readonly also?: string
  /** What the operator should know beside the response. */
  notes?(response: MessageShape<Output>, request: MessageShape<Input>): Notes
  /** Prints no response, not even with --json. */
  readonly silent?: boolean
  /** Whether a list may have no end, so that an empty page is shown. */
  isEndless?(request: MessageShape<Input>): boolean
  readonly timeoutMs?: number
}

type FlagRule = OptionRule & { readonly field?: string | null | undefined }
type Confirmed = (Partial<Action> & Pick<Action, 'word' | 'effect'>) | undefined
type Notes = string | readonly string[] | undefined

/** A verb that is a method of the service: its flags are fields of the request, and it shows the response. */
export const rpc =
  <Input extends DescMessage, Output extends DescMessage, Options = object>(
    method: DescMethodUnary<Input, Output>,
    verb: RpcVerb<Input, Output, Options> = {},
  ): Verb =>
  (describe) =>
    addRpc(method, verb, describe)

function addRpc<Input extends DescMessage, Output extends DescMessage, Options>(
  method: DescMethodUnary<Input, Output>,
  verb: RpcVerb<Input, Output, Options>,
  describe: (rules: OptionRules) => Command,
): void {
  const { input, output } = method
  const { flags = {} } = verb
  /** The fields of the request by the names of the options that set them. */
  const fieldsOf = new Map<string, DescField>()
  const rules = (option: Option): OptionRule => {
    const name = option.attributeName()
    const given = flags[name]
    const rule: FlagRule = typeof given === 'object' && given !== null ? given : { field: given }
    if (rule.field === null || NO_FIELDS.has(name)) return rule
    const field = findField(input, rule.field ?? name, option.variadic)
    if (field) fieldsOf.set(name, field)
    else if (name !== 'test' && !verb.request) {
      throw new TypeError(`${input.typeName} has no field for --${name}`)
    }
    return { ...ruleOf(name, field), ...rule }
  }
  const command = describe(rules)
  requireFlags(command, flags)
  const operand = command.registeredArguments[0]?.name()
  const operandField = operand && (findField(input, camelCase(operand), false) ?? input.fields[0])

  const needsBusiness = command.options.some(
    (option) => `${option.flags}  ${option.description}` === BUSINESS,
  )

  const readRequest = async (options: Options & CommonOptions, service: Service, text: string) => {
    const own = await verb.request?.(options, service, text)
    const init: Record<string, unknown> = {}
    for (const [name, field] of fieldsOf) {
      const value = (options as Record<string, unknown>)[name]
      if (value === undefined) continue
      init[field.localName] = field.fieldKind === 'list' ? [...new Set([value].flat())] : value
    }
    if (options.test && !fieldsOf.has('test')) init['live'] = false
    if (operandField) init[operandField.localName] = text
    if (needsBusiness) {
      init['businessId'] = options.all ? '' : service.business(options.business)
    }
    return create(input, { ...init, ...own } as never)
  }

  const action = serviceAction<Options & CommonOptions>(async (service, options, text) => {
    const request = await readRequest(options, service, text)
    const { confirms, shows, notes } = verb
    const confirmed = typeof confirms === 'function' ? confirms(request, service) : confirms
    if (confirmed) await confirmAction(service, options, { target: text, ...confirmed })
    const first = await callPages(method, verb, service, request)
    const response = (await verb.completes?.(first, service)) ?? first
    if (!verb.silent) {
      printResponse(options, output, response, () =>
        typeof shows === 'function'
          ? shows(response, options, service)
          : textOf(output, response, shows, verb.also),
      )
    }
    for (const text of [notes?.(response, request) ?? []].flat()) note(text)
    const { nextPageToken } = response as { nextPageToken?: string }
    if (nextPageToken) note(`More results: --page-token ${nextPageToken}`)
  })
  calling(action)(() => command)
}

/** Options that mean the same for all verbs. */
interface CommonOptions extends YesOption, ServiceOptions {
  readonly business?: string
  /** Of all businesses. */
  readonly all?: boolean
  readonly test?: boolean
}

const NO_FIELDS = new Set(['all', 'yes'])

/** What the name of a field may have after the name of its flag: `--session` is `session_id`. */
const ENDINGS = ['', 'Id', 'Number', 'Name', 'Minor', 'Only']
const LIST_ENDINGS = ['', 's', 'es', 'Ids', 'States']

function findField(input: DescMessage, name: string, isList: boolean): DescField | undefined {
  const stem = name === 'limit' ? 'pageSize' : name
  for (const ending of isList ? LIST_ENDINGS : ENDINGS) {
    const field = input.fields.find(({ localName }) => localName === stem + ending)
    if (field) return field
  }
  return undefined
}

/** How the text of a flag is read, by the type of its field. */
function ruleOf(name: string, field: DescField | undefined): OptionRule {
  if (name === 'live') return { conflicts: 'test' }
  if (name === 'limit') return { read: numberFrom(1, PAGE_SIZE_MAX) }
  if (field?.enum) return field.fieldKind === 'list' ? enumsRule(field.enum) : enumRule(field.enum)
  if (field?.message?.typeName === 'google.protobuf.Timestamp') return { read: time }
  if (field?.message?.typeName === 'google.protobuf.Duration') {
    return { read: (text) => ({ seconds: BigInt(durationSeconds(text)) }) }
  }
  return field?.name.endsWith('_minor') ? { read: amount } : {}
}

/** Calls the method; a page of a list may be empty although more follow. */
async function callPages<Input extends DescMessage, Output extends DescMessage>(
  method: DescMethodUnary<Input, Output>,
  { isEndless, timeoutMs }: RpcVerb<Input, Output, never>,
  service: Service,
  request: MessageShape<Input>,
): Promise<MessageShape<Output>> {
  const client = service.client(method.parent) as unknown as Readonly<
    Record<string, (request: object, options: CallOptions) => Promise<MessageShape<Output>>>
  >
  const call = async (pageToken?: string) => {
    const page = pageToken === undefined ? request : { ...request, pageToken }
    const response = await client[method.localName]?.(page, timeoutMs ? { timeoutMs } : {})
    return response as MessageShape<Output> & Readonly<Record<string, unknown>>
  }
  const rows = method.output.fields.find(({ fieldKind }) => fieldKind === 'list')?.localName ?? ''
  let response = await call()
  for (let skipped = 0; skipped < EMPTY_PAGES_MAX && !isEndless?.(request); skipped++) {
    const { nextPageToken, [rows]: found } = response
    if (!nextPageToken || (found as readonly unknown[]).length > 0) break
    response = await call(String(nextPageToken))
  }
  return response
}

/** A table if the response has many of the message, else a line for each field. */
function textOf<Output extends DescMessage>(
  output: Output,
  response: MessageShape<Output>,
  shows: Columns<never> | undefined,
  also: string | undefined,
): string {
  if (shows === undefined) return ''
  const columns = shows as Columns<unknown>
  const field = output.fields.find(({ message }) => message === columns.of)
  const found = field && (response as Readonly<Record<string, unknown>>)[field.localName]
  if (Array.isArray(found)) return table(found, columns.list)
  const record = field ? nestedColumns(columns, () => found) : columns.list
  return fields(response, [...record, ...(also ? columnsOf(output, also).list : [])])
}

const camelCase = (name: string) => name.replace(/-(.)/g, (_, letter) => letter.toUpperCase())
