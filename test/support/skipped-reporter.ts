import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { Reporter } from 'vitest/node'
import { findPostgres } from './postgres-server.ts'

/** Programs that tests use if they are installed, and the Debian packages that contain them. */
const PACKAGES: Readonly<Record<string, string>> = {
  bash: 'bash',
  caddy: 'caddy',
  'chromium-headless-shell': 'chromium-headless-shell',
  curl: 'curl',
  etcd: 'etcd-server',
  go: 'golang-go',
  grpc_python_plugin: 'protobuf-compiler-grpc python3-grpcio',
  haproxy: 'haproxy',
  'nats-server': 'nats-server',
  nginx: 'nginx libnginx-mod-stream',
  openssl: 'openssl',
  patroni: 'patroni',
  pgbouncer: 'pgbouncer',
  php: 'php-cli',
  promtool: 'prometheus',
  protoc: 'protobuf-compiler',
  python3: 'python3',
  script: 'bsdutils',
  'systemd-analyze': 'systemd',
}

/** Prints at the end in one line why tests were skipped, and what to install. */
export function createSkippedReporter(): Reporter {
  return {
    onTestRunEnd(modules) {
      const skipped = modules.flatMap((module) => [...module.children.allTests('skipped')]).length
      if (skipped > 0) console.log(reasonOf(skipped, missingPrograms()))
    },
  }
}

function reasonOf(skipped: number, missing: readonly string[]): string {
  const tests = skipped === 1 ? '1 test is skipped' : `${skipped} tests are skipped`
  if (missing.length === 0) return `${tests} for want of another user, machine or program`
  const packages = missing.map((program) => PACKAGES[program] ?? program)
  return `${tests} for want of ${missing.join(', ')}: apt-get install ${packages.join(' ')}`
}

function missingPrograms(): string[] {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin']
  const isThere = (program: string) => folders.some((folder) => existsSync(join(folder, program)))
  const missing = Object.keys(PACKAGES).filter((program) => !isThere(program))
  return findPostgres() === undefined ? [...missing, 'postgresql'] : missing
}
