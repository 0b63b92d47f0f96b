import { z } from 'zod'
import { integer } from '../config/settings.ts'

/** An http or https URL without credentials, query and fragment. */
export const url = z
  .string('is required: a URL such as https://bank.example')
  .refine(isPlainUrl, 'must be a URL such as https://bank.example, without user and query')

/** Of one request. */
export function timeoutMs(usual: number, max: number) {
  return integer(100, max).default(usual)
}

/** @param expects what the pattern asks for: "11 digits" */
export function text(pattern: RegExp, expects: string) {
  return z.string().regex(pattern, `must be ${expects}`)
}

/** A path below the base URL. */
export function path(usual: string) {
  const expects = 'a path below the base URL without a leading slash'
  return text(/^[\w.~-]+(\/[\w.~-]+)*$/, expects).default(usual)
}

export const NO_RSA_KEY = 'must be an RSA key, as PEM or as base64 of its DER'

function isPlainUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, search, hash } = new URL(text)
  return /^https?:$/.test(protocol) && username + password + search + hash === ''
}
