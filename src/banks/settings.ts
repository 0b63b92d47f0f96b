import { isIPv4 } from 'node:net'
import { z } from 'zod'
import { integer, isSecret, type ReadSettings, type Settings, secret } from '../config/settings.ts'

/** An https URL without credentials, query or fragment; at this machine also http. */
export const url = z
  .string('is required: a URL such as https://bank.example')
  .refine(isPlainUrl, {
    error: 'must be a URL such as https://bank.example, without credentials or query',
    abort: true,
  })
  .refine(isConfidential, 'must be https, unless it is at this machine')

/** The timeout of one request. */
export function timeoutMs(defaultMs: number, maxMs: number) {
  return integer(100, maxMs).default(defaultMs)
}

/** @param expected describes the pattern, for error messages: "11 digits" */
export function text(pattern: RegExp, expected: string) {
  return z.string().regex(pattern, `must be ${expected}`)
}

/** A path below the base URL. */
export function path(defaultPath: string) {
  const expected = 'a path below the base URL without a leading slash'
  return text(/^[\w.~-]+(\/[\w.~-]+)*$/, expected).default(defaultPath)
}

/**
 * Reads settings that are given together or not at all: once a required one is set, all of them
 * have to be.
 *
 * @returns undefined if one is invalid or missing; an empty object if none is set
 */
export function readOptional<Schema extends z.ZodObject>(
  read: ReadSettings,
  schema: Schema,
): { readonly given?: Settings<Schema> } | undefined {
  const required = Object.entries<z.ZodType>(schema.shape)
    .filter(([, field]) => !field.safeParse(undefined).success)
    .map(([name, field]) => [name, isSecret(field) ? secret(field.optional()) : field.optional()])
  const found = read(z.object(Object.fromEntries(required)))
  if (found === undefined) return undefined
  if (Object.values(found).every((value) => value === undefined)) return {}
  const given = read(schema)
  return given && { given }
}

export const INVALID_RSA_KEY = 'must be an RSA key, as PEM or as base64 of its DER'

function isPlainUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, search, hash } = new URL(text)
  return /^https?:$/.test(protocol) && username + password + search + hash === ''
}

/** Keys and customers' identity numbers are sent to it. */
function isConfidential(text: string): boolean {
  const { protocol, hostname } = new URL(text)
  const isLoopback =
    ['localhost', '[::1]'].includes(hostname) || (isIPv4(hostname) && hostname.startsWith('127.'))
  return protocol === 'https:' || isLoopback
}
