import { randomBytes } from 'node:crypto'
import { link, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { secretText } from '../config/settings.ts'
import { createPrivate, syncFolder } from '../core/private-file.ts'
import { type SettingText, settingLines } from './setting-lines.ts'

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
