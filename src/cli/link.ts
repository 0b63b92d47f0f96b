import { chmodSync, copyFileSync, mkdirSync, renameSync } from 'node:fs'
import { join } from 'node:path'

// Run by npm after each installation: puts the command where `npx inflow` and scripts look for it.
// npm links the commands of dependencies there, but not those of the project itself.
const bin = join(import.meta.dirname, '../../node_modules/.bin')
const draft = join(bin, `.inflow-${process.pid}`)

mkdirSync(bin, { recursive: true })
copyFileSync(join(import.meta.dirname, 'launcher.sh'), draft)
// A download may have lost the execute bit.
chmodSync(draft, 0o755)
// A rename replaces whatever has the name, also a symlink, which a copy would write through.
renameSync(draft, join(bin, 'inflow'))
