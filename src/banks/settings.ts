import { readFileSync } from 'node:fs'
import { addressRanges } from '../address-ranges.ts'

/** What a text setting has to look like. */
export interface TextRules {
  /** Without one the setting is required; '' makes it optional. */
  readonly fallback?: string
  readonly pattern?: RegExp
  /** What the pattern asks for, after "must be": "11 digits". */
  readonly expects?: string
}

/** Bounds of a number, both inclusive. */
export interface CountRules {
  readonly fallback: number
  readonly min: number
  readonly max: number
}

/**
 * Reads the settings of one connector. It never throws: what is wrong is collected, naming the
 * setting, and a placeholder is returned, so that one start tells of every fault. Names are whole:
 * `BANK_PALMPAY_APP_ID`.
 */
export interface SettingReader {
  text(name: string, rules?: TextRules): string
  /** From NAME, or from the file that NAME_FILE names; its value is never part of a fault. */
  secret(name: string, rules?: TextRules): string
  /** An http or https URL without credentials, query and fragment. */
  url(name: string, fallback?: string): string
  choice<T extends string>(name: string, allowed: readonly T[], fallback: T): T
  count(name: string, rules: CountRules): number
  /** Ranges of addresses, separated by commas; empty unless set. */
  cidrs(name: string): readonly string[]
  /** Tells of what only several settings together show: "BANK_X_A is required with BANK_X_B". */
  fault(text: string): void
}

/**
 * @param faults gets one line for each setting at fault
 * @param readText reads a file of `…_FILE`
 */
export function createSettingReader(
  env: NodeJS.ProcessEnv,
  faults: string[],
  readText: (path: string) => string = (path) => readFileSync(path, 'utf8'),
): SettingReader {
  const raw = (name: string): string | undefined => env[name]?.trim() || undefined
  const checked = (name: string, value: string | undefined, rules: TextRules): string => {
    if (value === undefined) {
      if (rules.fallback === undefined) faults.push(`${name} is required`)
      return rules.fallback ?? ''
    }
    if (rules.pattern && !rules.pattern.test(value)) {
      faults.push(`${name} must be ${rules.expects ?? `of the form ${rules.pattern.source}`}`)
    }
    return value
  }
  const fromFile = (name: string): string | undefined => {
    const path = raw(`${name}_FILE`)
    if (path === undefined) return raw(name)
    if (raw(name) !== undefined) faults.push(`${name} and ${name}_FILE are set: leave one out`)
    try {
      const value = readText(path).trim()
      if (value === '') faults.push(`${name}_FILE names an empty file: ${path}`)
      return value || '-'
    } catch (error) {
      faults.push(`${name}_FILE cannot be read: ${error instanceof Error ? error.message : error}`)
      return '-'
    }
  }
  return {
    text: (name, rules = {}) => checked(name, raw(name), rules),
    secret: (name, rules = {}) => {
      const before = faults.length
      const value = fromFile(name)
      return faults.length > before ? '' : checked(name, value, rules)
    },
    url(name, fallback) {
      const value = raw(name) ?? fallback
      if (value === undefined)
        faults.push(`${name} is required: a URL such as https://bank.example`)
      else if (!isPlainUrl(value)) {
        faults.push(`${name} must be a URL such as https://bank.example, without user and query`)
      }
      return value ?? ''
    },
    choice(name, allowed, fallback) {
      const value = raw(name) ?? fallback
      const known = allowed.find((choice) => choice === value)
      if (known === undefined) faults.push(`${name} must be one of ${allowed.join(', ')}`)
      return known ?? fallback
    },
    count(name, { fallback, min, max }) {
      const value = raw(name)
      if (value === undefined) return fallback
      const count = Number(value)
      if (/^\d{1,9}$/.test(value) && count >= min && count <= max) return count
      faults.push(`${name} must be ${min} to ${max}`)
      return fallback
    },
    cidrs(name) {
      const cidrs =
        raw(name)
          ?.split(',')
          .map((cidr) => cidr.trim()) ?? []
      for (const cidr of cidrs) {
        if (!isCidr(cidr)) {
          faults.push(`${name} must be ranges such as 196.6.103.0/24, and "${cidr}" is none`)
        }
      }
      return cidrs
    },
    fault: (text) => void faults.push(text),
  }
}

function isPlainUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, search, hash } = new URL(text)
  return /^https?:$/.test(protocol) && username + password + search + hash === ''
}

function isCidr(text: string): boolean {
  try {
    addressRanges([text])
    return true
  } catch {
    return false
  }
}
