import type { DescMethod } from '@bufbuild/protobuf'
import { readPolicy } from '../../../src/auth/method-policy.ts'
import type { Admission } from './http-requests.ts'
import type { Random } from './random.ts'
import type { World } from './words.ts'

/** A credential that opens a method, or one that does not. */
export function credential(random: Random, world: World, method: DescMethod, admission: Admission) {
  return admission === 'right'
    ? rightCredential(world, method)
    : wrongCredential(random, world, method)
}

/** The credential that opens a method. */
export function rightCredential(world: World, method: DescMethod): string {
  const secret = readPolicy(method).credential === 'secret key' ? world.key : world.adminToken
  return `Bearer ${secret}`
}

/** Anything that opens the method not; undefined: no header. */
export function wrongCredential(
  random: Random,
  world: World,
  method: DescMethod,
): string | undefined {
  const other = readPolicy(method).credential === 'secret key' ? world.adminToken : world.key
  const right = rightCredential(world, method)
  return random.pick([
    undefined,
    '',
    'Bearer',
    'Bearer ',
    `Bearer ${other}`,
    `Bearer ${world.revokedKey}`,
    right.slice(0, -1),
    `${right}x`,
    right.replace('Bearer', 'Basic'),
    right.replace('Bearer ', 'Bearer'),
    `Bearer ${right}`,
    `Bearer ${'x'.repeat(600)}`,
    `Bearer ${random.bytes(20).toString('base64url')}`,
    `Bearer sk_live_${random.bytes(20).toString('hex')}`,
    'Bearer __proto__',
  ])
}
