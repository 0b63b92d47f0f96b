import {
  type DescField,
  type DescMessage,
  type DescMethod,
  type Message,
  toJson,
} from '@bufbuild/protobuf'
import type { Interceptor, UnaryRequest } from '@connectrpc/connect'
import { type AnsweredRequest, callerKey } from '../../auth/caller.ts'
import type { PolicyOf } from '../../auth/method-policy.ts'
import { REASONS } from '../../core/errors.ts'
import { restPath } from '../../protobuf/contract-services.ts'
import { callContextKey } from '../invokers.ts'
import { toFault } from '../status.ts'

/** Passes each call with a valid secret key to the request log, whether it succeeds or fails. */
export function requestLog(
  record: (request: AnsweredRequest) => void,
  policyOf: PolicyOf,
): Interceptor {
  const paths = new Map<DescMethod, string>()
  const pathOf = (method: DescMethod): string => {
    const path = paths.get(method) ?? `${restPath(method)}/`
    paths.set(method, path)
    return path
  }
  return (next) => (request) => {
    if (request.stream || policyOf(request.method).credential !== 'secret key') return next(request)
    const startedMs = performance.now()
    const recordAs = (status: number, failure?: AnsweredRequest['failure']): void => {
      const caller = request.contextValues.get(callerKey)
      const context = request.contextValues.get(callContextKey)
      if (caller?.kind !== 'business' || context === undefined) return
      const { protocol, requestId, address } = context
      record({
        caller,
        path: protocol === 'rest' ? pathOf(request.method) : request.url,
        protocol,
        status,
        durationMs: performance.now() - startedMs,
        requestId,
        address,
        ...(failure && { failure }),
      })
    }
    return next(request).then(
      (response) => {
        recordAs(200)
        return response
      },
      (error: unknown) => {
        const { reason, message, fields } = toFault(error)
        const body = () => bodyOf(request)
        recordAs(REASONS[reason][1], { code: reason, error: message, faults: fields, body })
        throw error
      },
    )
  }
}

/** The most characters that are kept of a body, and of each text in it. */
const BODY_MAX = 2_000
const TEXT_MAX = 200

/** The known fields of a body as JSON. Empty: the body was not decoded, or has no JSON form. */
function bodyOf({ method, message }: UnaryRequest): string {
  if (message === undefined) return ''
  try {
    const json = toJson(method.input, withoutSecrets(method.input, message))
    return JSON.stringify(json).slice(0, BODY_MAX)
  } catch {
    // For example, protobuf's JSON cannot express every Timestamp.
    return ''
  }
}

/** The replacement for secrets. */
const HIDDEN = '(hidden)'

/** Copies a message, and hides fields that the contract marks as secret, and texts that look like a secret. */
function withoutSecrets<T extends Message>(schema: DescMessage, message: T): T {
  const copy: Record<string, unknown> = { ...message }
  for (const field of schema.fields) {
    const { oneof, localName } = field
    const name = oneof?.localName ?? localName
    const value = copy[name]
    if (oneof === undefined) {
      if (value !== undefined) copy[name] = shown(field, value)
    } else {
      const chosen = value as { readonly case?: string; readonly value?: unknown }
      if (chosen.case === localName) copy[name] = { ...chosen, value: shown(field, chosen.value) }
    }
  }
  return copy as T
}

function shown(field: DescField, value: unknown): unknown {
  const showText = (text: unknown): unknown => {
    if (typeof text !== 'string' || text === '') return text
    if (field.proto.options?.debugRedact) return HIDDEN
    const hidden = field.localName === 'phone' && PHONE.test(text) ? text : hideSecrets(text)
    return hidden.length > TEXT_MAX ? `${hidden.slice(0, TEXT_MAX)}…` : hidden
  }
  if (field.fieldKind === 'scalar') return showText(value)
  if (field.fieldKind === 'message') return withoutSecrets(field.message, value as Message)
  if (field.fieldKind === 'list' && field.listKind === 'message') {
    return (value as readonly Message[]).map((each) => withoutSecrets(field.message, each))
  }
  if (field.fieldKind === 'list') return (value as readonly unknown[]).map(showText)
  if (field.fieldKind === 'map') {
    const entries = Object.entries(value as object)
    return Object.fromEntries(entries.map(([key, each]) => [key, showText(each)]))
  }
  return value
}

/** The beginning of a phone number: eleven such digits are not an identity number. */
const PHONE = /^(0|[+]|234)/

/** Keys, tokens, signing secrets, the userinfo of URLs, and identity numbers, anywhere in a text. */
const SECRETS = /\b(?:sk_(?:live|test)|whsec|it)_\S+|(?<=:\/\/)[^/@\s]+(?=@)|(?<!\d)\d{11}(?!\d)/g

const hideSecrets = (text: string): string => text.replace(SECRETS, HIDDEN)
