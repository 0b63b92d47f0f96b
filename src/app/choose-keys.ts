import { randomBytes } from 'node:crypto'
import { link, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { parseEnv } from 'node:util'
import { secretText } from '../config/settings.ts'
import { assert } from '../core/errors.ts'
import { createPrivate, syncFolder } from '../core/private-file.ts'

/** The keys of a first start that are not set yet, as settings. */
export interface GeneratedKeys {
  readonly MASTER_KEY?: string
  readonly ADMIN_TOKEN?: string
}

/**
 * Generates the keys that the environment lacks.
 *
 * @param isUsed whether a service has used the database: then it has a master key, and is administered
 */
export function generateKeys(env: NodeJS.ProcessEnv, isUsed: boolean): GeneratedKeys {
  if (isUsed) return {}
  const lacks = (name: string) => secretText(env, name) === undefined
  return {
    ...(lacks('MASTER_KEY') && { MASTER_KEY: randomBytes(32).toString('base64') }),
    ...(lacks('ADMIN_TOKEN') && {
      ADMIN_TOKEN: `inflow_admin_${randomBytes(32).toString('base64url')}`,
    }),
  }
}

/**
 * Writes settings to a new file that only its owner may read. It appears complete, and is on disk when this returns:
 * what is encrypted must never outlive the key.
 *
 * @throws EEXIST
 */
export async function writeNewSettings(path: string, settings: SettingText): Promise<void> {
  const draft = `${path}.${process.pid}.new`
  await createPrivate(draft, settingLines(settings))
  try {
    // Unlike a rename, a link never replaces a file.
    await link(draft, path)
  } finally {
    await unlink(draft)
  }
  await syncFolder(dirname(path))
}

/** Settings by name. */
type SettingText = Readonly<Record<string, string>>

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
