import { readFileSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { type DescMethod, type DescMethodUnary, fromJsonString } from '@bufbuild/protobuf'
import type { Command } from 'commander'
import { restPath, SERVICES } from '../protobuf/contract-services.ts'
import { EXIT, Failure, print } from './output.ts'
import { printResponse, serviceAction } from './service-action.ts'
import { calling, describeNoun } from './verb.ts'

const API_HELP = `
  [method]  a method such as AccountService/ListAccounts, or a path of the REST API (default: prints all)
  [request]  JSON, @<file>, or - for standard input (default: {})
  Example: api BusinessService/ListBusinesses '{"page_size": 5}'`

/** `inflow api`: calls any method of the contract directly. It does not ask for confirmation before a change. */
export function api(noun: Command): void {
  const verb = calling(
    serviceAction(async (service, _options, name, given = '{}') => {
      const methods = SERVICES.flatMap((each) => each.methods)
      if (name === '') {
        for (const each of methods) print([nameOf(each), restPath(each) ?? ''].join('  ').trimEnd())
        return
      }
      const method = findMethod(methods, name)
      const request = readRequest(method, await readText(given))
      const response = await service.call(method, request)
      printResponse({ json: true }, method.output, response, () => '')
    }),
  )
  describeNoun(noun, verb, API_HELP)
}

const nameOf = ({ parent, name }: DescMethod) => `${parent.typeName}/${name}`

/** Finds a method by its name, with or without the package, or by its REST path. @throws Failure */
function findMethod(methods: readonly DescMethod[], name: string): DescMethodUnary {
  const wanted = name.replace(/^\/|\/$/g, '')
  const found = methods.find((each) => {
    const full = nameOf(each)
    return wanted === full || full.endsWith(`.${wanted}`) || restPath(each) === `/${wanted}`
  })
  if (found === undefined) {
    throw new Failure(EXIT.usage, `no method ${name}`, ['`inflow api` prints all'])
  }
  if (found.methodKind !== 'unary') {
    throw new Failure(EXIT.usage, `${nameOf(found)} is a stream: see \`inflow events tail\``)
  }
  return found as DescMethodUnary
}

/** The text of a request. @throws Failure if its file cannot be read */
async function readText(given: string): Promise<string> {
  if (given === '-') return text(process.stdin)
  if (!given.startsWith('@')) return given
  try {
    return readFileSync(given.slice(1), 'utf8')
  } catch (error) {
    throw new Failure(EXIT.usage, `cannot read the request: ${(error as Error).message}`)
  }
}

/** @throws Failure if the text is not JSON, or has an unknown or invalid field */
function readRequest(method: DescMethodUnary, json: string) {
  try {
    return fromJsonString(method.input, json)
  } catch (error) {
    const { message, cause } = error as Error
    const why = cause instanceof Error ? `${message}: ${cause.message}` : message
    throw new Failure(EXIT.usage, `not a ${method.input.typeName}: ${why}`)
  }
}
