import { spawnSync } from 'node:child_process'

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
