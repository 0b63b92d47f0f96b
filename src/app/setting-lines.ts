import { parseEnv } from 'node:util'
import { assert } from '../core/errors.ts'

/** Settings by name. */
export type SettingText = Readonly<Record<string, string>>

/** Values that mean the same with and without quotes, also to a shell. */
const PLAIN = /^[\w.:/@%+=,?-]*$/

/**
 * Settings as lines for `--env-file`, systemd and shells. Quotes are avoided where they can be, as Docker and kubectl
 * take them for a part of the value.
 */
export function settingLines(settings: SettingText): string {
  const lines = Object.entries(settings).map(([name, value]) => {
    const quote = PLAIN.test(value) ? '' : ["'", '"', '`'].find((each) => !value.includes(each))
    return `${name}=${quote}${value}${quote}\n`
  })
  const text = lines.join('')
  const read = parseEnv(text)
  assert(
    Object.entries(settings).every(([name, value]) => read[name] === value),
    'a setting cannot be written',
  )
  return text
}
