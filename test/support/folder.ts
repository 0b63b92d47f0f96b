import { chmod, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * A temporary folder that other users may enter. Otherwise root's database, which runs as another
 * user, would be created elsewhere and outlive the folder.
 */
export async function makeFolder(name: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), `inflow-${name}-`))
  await chmod(folder, 0o711)
  return folder
}
