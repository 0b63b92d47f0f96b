import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * The programs of other languages on this machine. `.ci/run` installs them from Debian; elsewhere the
 * tests that need one are skipped.
 */
export const installed = {
  go: runs('go', 'version') ? 'go' : undefined,
  php: runs('php', '--version') ? 'php' : undefined,
  /** Version 3.9 or newer. */
  python: find('import sys; assert sys.version_info >= (3, 9)'),
  /** A Python that has grpc and protobuf; Debian's, if another one comes first in the path. */
  grpcPython: find('import grpc, google.protobuf'),
  /** protoc with its plugin for Python. */
  protoc: runs('protoc', '--version') && exists('grpc_python_plugin'),
}

type Command = (...args: readonly string[]) => readonly string[]

/** The command of a program of the guide in each language; undefined: the language is not installed. */
export function guideProgram(
  name: 'payments' | 'webhooks',
): Readonly<Record<'Python' | 'Go' | 'PHP', Command | undefined>> {
  const { python, go, php } = installed
  const at = (file: string) => join(import.meta.dirname, file)
  let built = ''
  const build = (compiler: string) => {
    if (built) return built
    built = join(mkdtempSync(join(tmpdir(), 'inflow-go-')), name)
    execFileSync(compiler, ['build', '-o', built, at(`go/${name}.go`)])
    return built
  }
  const ofPhp = (interpreter: string, args: readonly string[]) =>
    name === 'payments'
      ? [interpreter, at('php/payments.php'), ...args]
      : [interpreter, '-S', `127.0.0.1:${args[0]}`, at('php/webhooks.php')]
  return {
    Python: python ? (...args) => [python, at(`python/${name}.py`), ...args] : undefined,
    Go: go ? (...args) => [build(go), ...args] : undefined,
    PHP: php ? (...args) => ofPhp(php, args) : undefined,
  }
}

function find(check: string): string | undefined {
  return ['python3', '/usr/bin/python3'].find((program) => runs(program, '-c', check))
}

function runs(program: string, ...args: readonly string[]): boolean {
  return spawnSync(program, args).status === 0
}

/** For a program without a version: it reads a request, and here gets none. */
function exists(program: string): boolean {
  return spawnSync(program, [], { input: '' }).error === undefined
}
