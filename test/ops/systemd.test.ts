import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../support/folder.ts'
import { isInstalled, readOps, unknownSettings } from './settings-of.ts'

const UNIT = readOps('systemd/inflow.service')
const values = (name: string) =>
  [...UNIT.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value = '']) => value)

/** The most exposure that `systemd-analyze security` may compute, of 10. */
const EXPOSURE_MAX = 1.5

/** The unit with programs that exist on this machine. */
function unitHere(): string {
  const path = join(temporaryFolder(), 'inflow.service')
  writeFileSync(path, UNIT.replaceAll('/opt/inflow/node_modules/.bin/node', process.execPath))
  return path
}

test.skipIf(!isInstalled('systemd-analyze'))('systemd accepts the unit', () => {
  const output = execFileSync('systemd-analyze', ['verify', '--man=no', unitHere()], {
    encoding: 'utf8',
    stdio: 'pipe',
  })
  expect(output).toBe('')
})

test.skipIf(!isInstalled('systemd-analyze'))('systemd finds little exposure', () => {
  const output = execFileSync('systemd-analyze', ['security', '--offline=yes', unitHere()], {
    encoding: 'utf8',
    stdio: 'pipe',
  })
  const [, exposure] = /Overall exposure level for \S+: ([\d.]+)/.exec(output) ?? []
  expect(Number(exposure)).toBeLessThanOrEqual(EXPOSURE_MAX)
})

test('it stops as the service does, with time to finish, and reloads by SIGHUP', () => {
  const [stop = ''] = values('TimeoutStopSec')
  // SHUTDOWN_DELAY_SECONDS up to 30, and 10 s.
  expect(Number(stop)).toBeGreaterThan(40)
  // Only the primary process gets SIGTERM: it stops its workers.
  expect(values('KillMode')).toEqual(['mixed'])
  expect(values('ExecReload')).toEqual(['/bin/kill -HUP $MAINPID'])
})

test('a crash writes no memory, which has the master key, to a disk', () => {
  expect(values('LimitCORE')).toEqual(['0'])
})

test('its settings exist', () => {
  const names = values('Environment').map((pair) => pair.split('=')[0] ?? '')
  expect(unknownSettings(names)).toEqual(['NODE_ENV', 'NODE_COMPILE_CACHE'])
})
