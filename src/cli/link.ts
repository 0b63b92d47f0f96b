import { chmodSync, copyFileSync, mkdirSync, renameSync } from 'node:fs'
import { join } from 'node:path'

// npm runs this after each installation. It installs the command into the folder in which `npx inflow` and scripts find it:
// npm links the commands of dependencies there, but not the commands of the project itself.
const bin = join(import.meta.dirname, '../../node_modules/.bin')
const draft = join(bin, `.inflow-${process.pid}`)

mkdirSync(bin, { recursive: true })
copyFileSync(join(import.meta.dirname, 'launcher.sh'), draft)
// A downloaded archive may lack the execute bit.
chmodSync(draft, 0o755)
// A rename replaces an existing symlink, while a copy would write through it.
renameSync(draft, join(bin, 'inflow'))
