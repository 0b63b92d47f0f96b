import { parseEnv } from 'node:util'
import { assert } from '../../core/errors.ts'

/** Settings by name. */
export type SettingText = Readonly<Record<string, string>>

/** Settings as lines for `--env-file`. A shell reads them too, unless a value has a single quote. */
export function settingLines(settings: SettingText): string {
  const lines = Object.entries(settings).map(([name, value]) => {
    const quote = ["'", '"', '`'].find((each) => !value.includes(each))
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
