import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { parseNaira } from '../../format/money.ts'

/** What the fields of a form hold, by their names. */
export interface FormValues {
  /** Without spaces around it; empty: nothing was typed. */
  text(name: string): string
  /** Of a check box. */
  isOn(name: string): boolean
  /** Of check boxes with the same name. */
  all(name: string): string[]
  /** The lines that are not empty, of a field with several. */
  lines(name: string): string[]
  /** A whole number; 0: nothing was typed. */
  whole(name: string): number
  /** An amount of naira, in kobo; 0: nothing was typed. */
  kobo(name: string): bigint
  /** A local time; undefined: nothing was typed. */
  time(name: string): Timestamp | undefined
}

export function readForm(form: FormData): FormValues {
  const text = (name: string) => String(form.get(name) ?? '').trim()
  return {
    text,
    isOn: (name) => form.has(name),
    all: (name) => form.getAll(name).map(String),
    lines: (name) =>
      text(name)
        .split('\n')
        .map((line) => line.trim())
        .filter((line) => line !== ''),
    whole: (name) => Number.parseInt(text(name), 10) || 0,
    kobo: (name) => parseNaira(text(name)) ?? 0n,
    time: (name) => {
      const ms = new Date(text(name)).getTime()
      return Number.isNaN(ms) ? undefined : timestampFromMs(ms)
    },
  }
}
