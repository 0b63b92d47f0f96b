// Node before 22.18 cannot read TypeScript, and so could not report which version it needs. This file
// is plain JavaScript in a CommonJS folder: an old Node reads it in spite of its extension.
// `src/main.ts` is a link to it.
{
  const { enableCompileCache } = require('node:module')
  const { join } = require('node:path')

  const root = join(__dirname, '../../..')
  const needed = require(join(root, 'package.json')).engines.node.replace('>=', '')
  const [majorMin, minorMin] = needed.split('.').map(Number)
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  const tooOld = major < majorMin || (major === majorMin && minor < minorMin)
  if (tooOld || !process.features.typescript) {
    const found = process.versions.node
    process.stderr.write(
      `inflow: Node ${needed} or newer is required, this is ${found}; npm ci installs one, which npm start uses\n`,
    )
    process.exit(1)
  }
  // In the installation's own folder: in a shared one, another user could plant code.
  enableCompileCache(join(root, 'node_modules/.cache/inflow'))
  import('../run.ts').then(({ run }) => run(process.env, process.argv.slice(2)))
}
