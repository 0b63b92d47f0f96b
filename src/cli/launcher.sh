#!/bin/sh
# The `inflow` command, copied to node_modules/.bin/inflow by link.ts. It is a shell script because
# an old Node cannot read a TypeScript file, and so could not report the required version.
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd) || exit 1
node=$root/node_modules/.bin/node
if [ ! -x "$node" ]; then
  node=node
  if ! node -e '
    const [major, minor] = process.versions.node.split(".").map(Number)
    process.exit(process.features.typescript && (major > 22 || minor >= 19) ? 0 : 1)
  ' 2>/dev/null; then
    found=$(node --version 2>/dev/null || echo none)
    echo "error: inflow needs Node 22.19 or newer (found: $found); run npm ci in $root or install one" >&2
    exit 1
  fi
fi
# Without --, Node would take --env-file of a command for itself.
exec "$node" -- "$root/src/cli/inflow.ts" "$@"
