import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/**
 * Which versions can work with the schema after a migration: those that know this migration, or a later
 * one. A migration that only adds states the oldest version that it leaves working, one that removes
 * something states the migration of the release that stopped using it:
 *
 *     static readonly worksSince = 'Migration20261122000000_initial'
 *
 * A migration that states nothing ends all versions that do not know it.
 *
 * @returns the name of a migration
 */
export async function readWorksSince(folder: string, name: string): Promise<string> {
  const url = pathToFileURL(join(folder, `${name}.ts`)).href
  const { [name]: migration } = (await import(url)) as Record<string, { worksSince?: string }>
  return migration?.worksSince ?? name
}
