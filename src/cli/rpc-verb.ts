import {
  create,
  type DescField,
  type DescMessage,
  type DescMethodUnary,
  type MessageInitShape,
  type MessageShape,
} from '@bufbuild/protobuf'
import { type CallOptions, Code, ConnectError } from '@connectrpc/connect'
import type { Command, Option } from 'commander'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { type Columns, columnsOf, nestedColumns } from './columns.ts'
import {
  type Action,
  type Confirmation,
  confirm,
  confirmAction,
  type YesOption,
} from './confirm.ts'
import { amount, durationSeconds, enumRule, enumsRule, numberFrom, time } from './options.ts'
import { fields, note, table } from './output.ts'
import {
  printResponse,
  type Service,
  type ServiceOptions,
  serviceAction,
} from './service-action.ts'
import { calling, type OptionRule, requireFlags, type Verb } from './verb.ts'

/** Lines of help texts that many verbs share. Without `--business`, it is the demo business. */
export const BUSINESS =
  '--business <id>  the business (default: the demo business of a local service)'
export const MODE = `--live  live mode only
  --test  test mode only`
export const PAGE = `--limit <count>  page size, 1 to 200 (default: 50)
  --page-token <token>  continue after an earlier page
  --paginate  all pages, one after another; with --json, a document each`

/** Whether it is the option of `BUSINESS`. */
export const takesDemoBusiness = ({ flags, description }: Option): boolean =>
  `${flags}  ${description}` === BUSINESS

/** The largest page of a list, and the most empty pages that are skipped before the command shows one. */
const PAGE_SIZE_MAX = 200
const EMPTY_PAGES_MAX = 200

/** What a verb that is a method needs beyond the descriptors of its request and response. */
interface RpcVerb<Input extends DescMessage, Output extends DescMessage, Options> {
  readonly flags?: Flags
  /** Fields of the request that several flags decide. With it, a flag may be of no field. */
  request?(
    options: Options,
    service: Service,
    operand: string,
  ): MessageInitShape<Input> | Promise<MessageInitShape<Input>>
  /** What the operator confirms: what happens to the operand, by the name of the verb, or another action. */
  readonly confirms?: Confirmed | ((request: MessageShape<Input>, service: Service) => Confirmed)
  /** Makes the response whole before it is shown. */
  completes?(
    response: MessageShape<Output>,
    service: Service,
    request: MessageShape<Input>,
  ): Promise<MessageShape<Output>>
  /** Columns of the message that the response has, or of the response itself; or its text. */
  readonly shows?:
    | string
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

/** Flags that differ from the default, in the field that they set or in how they are read. */
type Flags = Readonly<Record<string, string | FlagRule>>
type FlagRule = OptionRule & { readonly field?: string }
type Confirmed = string | (Partial<Action> & Pick<Action, 'effect'>) | Confirmation | undefined
type Notes = string | readonly string[] | undefined

/**
 * A verb that is a method of the service: its flags and its operand are fields of the request, by their names, and it
 * shows what the response has. The flags of `BUSINESS`, `MODE` and `PAGE` need no more than their lines in the help text.
 */
export const rpc =
  <Input extends DescMessage, Output extends DescMessage, Options = object>(
    method: DescMethodUnary<Input, Output>,
    verb: RpcVerb<Input, Output, Options> = {},
  ): Verb =>
  (describe) => {
    const { input, output } = method
    const { flags = {}, confirms, completes, also, notes, silent } = verb
    const shows = typeof verb.shows === 'string' ? columnsIn(output, verb.shows) : verb.shows
    const command = describe((option) => {
      const { field, ...rule } = flagOf(flags[option.attributeName()])
      const target = requestField(input, option, field, verb.request !== undefined)
      return { ...ruleOf(option.attributeName(), target), ...rule }
    })
    requireFlags(command, flags)
    // Without those of the service call, which are added last.
    const fieldOptions = [...command.options]
    const action = serviceAction<Options & CommonOptions>(async (service, options, operand) => {
      const own = await verb.request?.(options, service, operand)
      const operands = readOperand(input, command, operand)
      const read = readOptions(input, fieldOptions, flags, options, service)
      const request = create(input, { ...read, ...operands, ...own } as MessageInitShape<Input>)
      const asked = typeof confirms === 'function' ? confirms(request, service) : confirms
      if (typeof asked === 'object' && 'question' in asked) await confirm(options, asked)
      else if (asked !== undefined) {
        const action = typeof asked === 'string' ? { effect: asked } : asked
        const word = command.name().replace('complete-', '')
        await confirmAction(service, options, { word, target: operand, ...action })
      }
      const showPage = async (pageRequest: MessageShape<Input>, isFirst = false) => {
        const page = await callPages(method, verb, service, pageRequest)
        // A list may end with an empty page.
        if (!isFirst && rowsOf(method, page)?.length === 0) return ''
        const response = (await completes?.(page, service, request)) ?? page
        const text = () =>
          typeof shows === 'function'
            ? shows(response, options, service)
            : textOf(output, response, shows, also)
        if (!silent) printResponse(options, output, response, text)
        for (const each of [notes?.(response, request) ?? []].flat()) note(each)
        return (response as { readonly nextPageToken?: string }).nextPageToken
      }
      let next = await showPage(request, true)
      while (options.paginate && next) next = await showPage({ ...request, pageToken: next })
      if (next) note(`More results: --page-token ${next}, or --paginate`)
    })
    calling(action)(() => command)
  }

/** Options that mean the same for all verbs. */
interface CommonOptions extends YesOption, ServiceOptions {
  readonly business?: string
  /** Of all businesses. */
  readonly all?: boolean
  readonly test?: boolean
  /** All pages of a list. */
  readonly paginate?: boolean
}

/** Flags that are no fields. Without a field `test`, `--test` is the absence of `live`. */
const NO_FIELDS = new Set(['all', 'paginate', 'test', 'yes'])

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

const flagOf = (flag: string | FlagRule = {}): FlagRule =>
  typeof flag === 'string' ? { field: flag } : flag

/** The field that an option sets. @param mayLack whether the verb reads options that no field has */
function requestField(
  input: DescMessage,
  option: Option,
  name: string | undefined,
  mayLack: boolean,
): DescField | undefined {
  const flag = option.attributeName()
  const field = findField(input, name ?? flag, option.variadic)
  if (field || mayLack || NO_FIELDS.has(flag)) return field
  throw new TypeError(`${input.typeName} has no field for --${flag}`)
}

/** The fields of the request that options state. */
function readOptions(
  input: DescMessage,
  known: readonly Option[],
  flags: Flags,
  options: CommonOptions,
  service: Service,
): object {
  const init: Record<string, unknown> = {}
  for (const option of known) {
    const name = option.attributeName()
    const value = (options as Record<string, unknown>)[name]
    const field = requestField(input, option, flagOf(flags[name]).field, true)
    if (value !== undefined && field) {
      init[field.localName] = field.fieldKind === 'list' ? [...new Set([value].flat())] : value
    } else if (name === 'test' && value) init['live'] = false
    if (takesDemoBusiness(option)) {
      init['businessId'] = options.all ? '' : service.business(options.business)
    }
  }
  return init
}

/** The field that the operand states: that of its name, else the first one. */
function readOperand(input: DescMessage, command: Command, text: string): object {
  const operand = command.registeredArguments[0]?.name()
  if (operand === undefined) return {}
  const name = operand.replace(/-(.)/g, (_, letter) => letter.toUpperCase())
  const field = findField(input, name, false) ?? input.fields[0]
  return field ? { [field.localName]: text } : {}
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
  let response = await call()
  for (let skipped = 0; skipped < EMPTY_PAGES_MAX && !isEndless?.(request); skipped++) {
    const { nextPageToken } = response
    if (!nextPageToken || rowsOf(method, response)?.length !== 0) break
    response = await call(String(nextPageToken))
  }
  if (rowsOf(method, response)?.length === 0) await findBusiness(service, request)
  return response
}

/** The rows of a page of a list; undefined: the response is none. */
function rowsOf(method: DescMethodUnary, response: object): readonly unknown[] | undefined {
  const list = method.output.fields.find(({ fieldKind }) => fieldKind === 'list')
  return list && (response as Readonly<Record<string, readonly unknown[]>>)[list.localName]
}

/** A list of a business that does not exist is empty, as is that of a typing error. @throws ConnectError not_found */
async function findBusiness(service: Service, request: object): Promise<void> {
  const { businessId } = request as { readonly businessId?: string }
  if (!businessId) return
  try {
    await service.client(BusinessService).getBusiness({ businessId })
  } catch (error) {
    // A token may list what it may not look up otherwise.
    if (ConnectError.from(error).code === Code.NotFound) throw error
  }
}

function columnsIn(output: DescMessage, names: string): Columns<never> {
  const field = output.fields.find(({ message }) => message?.typeName.startsWith('inflow.'))
  return columnsOf(field?.message ?? output, names)
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
