import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'
import { isIPv4 } from 'node:net'
import { z } from 'zod'
import { integer, isSecret, type ReadSettings, type Settings, secret } from '../config/settings.ts'

/** An https URL without credentials, query or fragment; http is allowed only on this machine. */
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
 * Reads settings that have to be set together or not at all: if one required setting is set, all have to be set.
 *
 * @returns undefined if a setting is invalid or missing; an empty object if none is set
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

/** Whether requests to a URL are encrypted or stay on this machine, because they contain keys and identity numbers. */
function isConfidential(text: string): boolean {
  const { protocol, hostname } = new URL(text)
  const isLoopback =
    ['localhost', '[::1]'].includes(hostname) || (isIPv4(hostname) && hostname.startsWith('127.'))
  return protocol === 'https:' || isLoopback
}

type Encoding = 'pkcs8' | 'pkcs1' | 'spki'

/**
 * Parses a private RSA key as banks' portals show it: PEM (line ends may be written as `\n`), or
 * the bare base64 of its DER.
 *
 * @returns undefined unless the text is a private RSA key
 */
export function parsePrivateKey(text: string): KeyObject | undefined {
  if (isPem(text)) return attempt(() => createPrivateKey(withLineEnds(text)))
  return (
    attempt(() => createPrivateKey(derOf(text, 'pkcs8'))) ??
    attempt(() => createPrivateKey(derOf(text, 'pkcs1')))
  )
}

/** Parses a public RSA key in the same formats. */
export function parsePublicKey(text: string): KeyObject | undefined {
  // Node would accept a private key, because it contains the public key; but the operator has confused them.
  if (parsePrivateKey(text)) return undefined
  if (isPem(text)) return attempt(() => createPublicKey(withLineEnds(text)))
  return (
    attempt(() => createPublicKey(derOf(text, 'spki'))) ??
    attempt(() => createPublicKey(derOf(text, 'pkcs1')))
  )
}

function isPem(text: string): boolean {
  return text.includes('-----BEGIN')
}

function withLineEnds(text: string): string {
  return text.replaceAll('\\n', '\n')
}

function derOf<E extends Encoding>(text: string, type: E) {
  return { key: Buffer.from(text.replace(/\s/g, ''), 'base64'), format: 'der' as const, type }
}

function attempt(read: () => KeyObject): KeyObject | undefined {
  try {
    const key = read()
    return key.asymmetricKeyType === 'rsa' ? key : undefined
  } catch {
    return undefined
  }
}
