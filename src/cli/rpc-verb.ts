import {
  create,
  type DescField,
  type DescMessage,
  type DescMethodUnary,
  type MessageInitShape,
  type MessageShape,
} from '@bufbuild/protobuf'
import { Code, ConnectError } from '@connectrpc/connect'
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

/** Lines of help texts that many verbs share. Without `--business`, the demo business is used. */
export const BUSINESS =
  '--business <id>  the business (default: the demo business of a local service)'
export const MODE = `--live  live mode only
  --test  test mode only`
export const PAGE = `--limit <count>  page size, 1 to 200 (default: 50)
  --page-token <token>  continue after an earlier page
  --paginate  all pages, one after another; with --json, a document each`

/** Whether an option is that of `BUSINESS`. */
export const takesDemoBusiness = ({ flags, description }: Option): boolean =>
  `${flags}  ${description}` === BUSINESS

/** The largest page of a list, and the most empty pages that are skipped before the command shows one. */
const PAGE_SIZE_MAX = 200
const EMPTY_PAGES_MAX = 200

/** The parts of a verb for a method that do not follow from the descriptors of its request and response. */
interface RpcVerb<Input extends DescMessage, Output extends DescMessage, Options> {
  readonly flags?: Flags
  /** Returns request fields that depend on several flags. If it is present, flags without a field are allowed. */
  request?(
    options: Options,
    service: Service,
    operand: string,
  ): MessageInitShape<Input> | Promise<MessageInitShape<Input>>
  /** The confirmation: the effect on the operand, or another action. */
  readonly confirms?: Confirmed | ((request: MessageShape<Input>, service: Service) => Confirmed)
  /** Completes the response before it is shown. */
  completes?(
    response: MessageShape<Output>,
    service: Service,
    request: MessageShape<Input>,
  ): Promise<MessageShape<Output>>
  /** Columns of the message in the response, or of the response itself; or a function that returns its text. */
  readonly shows?:
    | string
    | Columns<never>
    | ((
        response: MessageShape<Output>,
        options: Options & CommonOptions,
        service: Service,
      ) => string)
  /** Further columns of the response, after the columns of its message. */
  readonly also?: string
  /** Notes for the operator in addition to the response. */
  notes?(response: MessageShape<Output>, request: MessageShape<Input>): Notes
  /** Whether no response is printed, not even with --json. */
  readonly silent?: boolean
  /** Whether a list may be endless, so that an empty page is shown. */
  isEndless?(request: MessageShape<Input>): boolean
  readonly timeoutMs?: number
}

/** Flags that do not follow the default rule, with the field that they set, or how they are parsed. */
type Flags = Readonly<Record<string, string | FlagRule>>
type FlagRule = OptionRule & { readonly field?: string }
type Confirmed = string | (Partial<Action> & Pick<Action, 'effect'>) | Confirmation | undefined
type Notes = string | readonly string[] | undefined

/**
 * A verb that calls a method of the service. Its flags and its operand set the request fields of the same names, and it
 * shows the response. The flags of `BUSINESS`, `MODE` and `PAGE` need only their lines in the help text.
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
    // A copy without the options of the service call, which are added last.
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
        const { nextPageToken = '' } = page as { readonly nextPageToken?: string }
        // The last page of a list may be empty. An endless list ends here.
        if (!isFirst && rowsOf(method, page)?.length === 0) {
          return verb.isEndless?.(request) ? '' : nextPageToken
        }
        const response = (await completes?.(page, service, request)) ?? page
        const text = () =>
          typeof shows === 'function'
            ? shows(response, options, service)
            : textOf(output, response, shows, also)
        if (!silent) printResponse(options, output, response, text)
        for (const each of [notes?.(response, request) ?? []].flat()) note(each)
        return nextPageToken
      }
      let next = await showPage(request, true)
      while (options.paginate && next) next = await showPage({ ...request, pageToken: next })
      if (next) note(`More results: --page-token ${next}, or --paginate`)
    })
    calling(action)(() => command)
  }

/** Options that have the same meaning for all verbs. */
interface CommonOptions extends YesOption, ServiceOptions {
  readonly business?: string
  /** Lists the rows of all businesses. */
  readonly all?: boolean
  readonly test?: boolean
  /** Shows all pages of a list. */
  readonly paginate?: boolean
}

/** Flags that are not fields. If the request has no field `test`, `--test` sets `live` to false. */
const NO_FIELDS = new Set(['all', 'paginate', 'test', 'yes'])

/** The endings that the name of a field may have in addition to the name of its flag: `--session` is `session_id`. */
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

/** Finds the field that an option sets. @param mayLack whether the verb may have options without a field */
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

/** Returns the request fields that options set. */
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

/** Returns the request field that the operand sets: the field with its name, or else the first field. */
function readOperand(input: DescMessage, command: Command, text: string): object {
  const operand = command.registeredArguments[0]?.name()
  if (operand === undefined) return {}
  const name = operand.replace(/-(.)/g, (_, letter) => letter.toUpperCase())
  const field = findField(input, name, false) ?? input.fields[0]
  return field ? { [field.localName]: text } : {}
}

/** Returns the rule that parses a flag, by the type of its field. */
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

/** Calls the method. A page of a list may be empty although more pages follow. */
async function callPages<Input extends DescMessage, Output extends DescMessage>(
  method: DescMethodUnary<Input, Output>,
  { isEndless, timeoutMs }: RpcVerb<Input, Output, never>,
  service: Service,
  request: MessageShape<Input>,
): Promise<MessageShape<Output>> {
  const call = async (pageToken?: string) => {
    const page = pageToken === undefined ? request : { ...request, pageToken }
    const response = await service.call(method, page, timeoutMs ? { timeoutMs } : {})
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

/** The rows of a page of a list; undefined: the response is not a page. */
function rowsOf(method: DescMethodUnary, response: object): readonly unknown[] | undefined {
  const list = method.output.fields.find(({ fieldKind }) => fieldKind === 'list')
  return list && (response as Readonly<Record<string, readonly unknown[]>>)[list.localName]
}

/** Checks that a business exists, because the list of a mistyped id is empty too. @throws ConnectError not_found */
async function findBusiness(service: Service, request: object): Promise<void> {
  const { businessId } = request as { readonly businessId?: string }
  if (!businessId) return
  try {
    await service.client(BusinessService).getBusiness({ businessId })
  } catch (error) {
    // The token may be allowed to list, but not to look up businesses: ignore other errors.
    if (ConnectError.from(error).code === Code.NotFound) throw error
  }
}

function columnsIn(output: DescMessage, names: string): Columns<never> {
  const field = output.fields.find(({ message }) => message?.typeName.startsWith('inflow.'))
  return columnsOf(field?.message ?? output, names)
}

/** Formats a repeated message as a table, and a single message as a line for each field. */
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
