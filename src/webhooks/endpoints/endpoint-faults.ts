import type { FieldFault } from '../../core/errors.ts'
import { endpointKindFaults } from '../../events/event-kinds.ts'
import type { ConnectionChange } from '../connections/connection.ts'
import { changeFaults } from '../connections/connection-faults.ts'
import { urlRefusal } from '../sender/address-guard.ts'
import type { EndpointContext } from './endpoint-context.ts'

/** The settings of an endpoint that validation in the contract cannot check. */
interface Requested {
  readonly url?: string | undefined
  readonly kinds: readonly string[]
  readonly connection: ConnectionChange
}

/** The faults of the settings to create or change an endpoint with. */
export function endpointFaults(
  { url, kinds, connection }: Requested,
  { rules, clock }: Pick<EndpointContext, 'rules' | 'clock'>,
): FieldFault[] {
  const nowMs = clock.now()
  const refusal = url === undefined ? undefined : urlRefusal(url, rules)
  return [
    ...(refusal === undefined ? [] : [{ field: 'url', message: refusal }]),
    ...endpointKindFaults(kinds),
    ...changeFaults(connection, rules, nowMs),
  ]
}
