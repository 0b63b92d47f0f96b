import type { Business } from '../../../../gen/inflow/business/v1/business_pb.ts'
import { count } from '../../format/money.ts'

/** `50 a second, 100 at once`. */
export function rateText({ rateLimitPerSecond, rateLimitBurst }: Business): string {
  if (rateLimitPerSecond === 0) return 'Default'
  const burst = rateLimitBurst === 0 ? 2 * rateLimitPerSecond : rateLimitBurst
  return `${count(rateLimitPerSecond)} a second, ${count(burst)} at once`
}
