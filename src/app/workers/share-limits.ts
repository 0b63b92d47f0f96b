import { hash } from 'node:crypto'
import type { LiveBank } from '../../banks/live-bank.ts'
import type { Config } from '../../config/config.ts'

/**
 * The settings of one worker: limits of the whole service are divided by the number of workers and
 * rounded up, so the workers together exceed each limit by less than their number.
 */
export function shareOf(config: Config): Config {
  const { workers } = config
  const part = (whole: number) => Math.ceil(whole / workers)
  const banks = Object.entries(config.liveBanks).map(([code, bank]): [string, LiveBank] => [
    code,
    { ...bank, limits: { ...bank.limits, concurrency: part(bank.limits.concurrency) } },
  ])
  return {
    ...config,
    connectionsMax: part(config.connectionsMax),
    connectionsPerAddressMax: part(config.connectionsPerAddressMax),
    liveBanks: Object.fromEntries(banks),
  }
}

/**
 * How many concurrent requests to an endpoint one worker may make. The shares of all workers add up
 * to the endpoint's concurrency exactly. A share may be 0; which workers get the remainder depends
 * on the endpoint's id.
 *
 * @param number of the worker, from 1
 */
export function endpointShare(
  { number, workers }: { readonly number: number; readonly workers: number },
  endpointId: string,
  concurrency: number,
): number {
  const each = Math.floor(concurrency / workers)
  const offset = hash('sha256', endpointId, 'buffer').readUInt32BE() % workers
  const more = (number - 1 + offset) % workers < concurrency % workers
  return more ? each + 1 : each
}
