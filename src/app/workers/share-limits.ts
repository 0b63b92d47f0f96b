import { hash } from 'node:crypto'
import type { LiveBank } from '../../banks/live-bank.ts'
import type { Config } from '../../config/config.ts'

/**
 * What one worker is given of the limits that hold for the service as a whole: its part, rounded
 * up, so that together they come to less than one more for each worker.
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
 * How many of the requests that an endpoint may get at once are one worker's to make. Over all
 * workers it is exactly so many: which of them are given one more, where it does not divide evenly,
 * differs from endpoint to endpoint, and some may be given none.
 *
 * @param number of the worker, from 1
 */
export function endpointShare(
  { number, workers }: { readonly number: number; readonly workers: number },
  endpointId: string,
  concurrency: number,
): number {
  const each = Math.floor(concurrency / workers)
  const place = hash('sha256', endpointId, 'buffer').readUInt32BE() % workers
  const more = (number - 1 + place) % workers < concurrency % workers
  return more ? each + 1 : each
}
