import { createConnectQueryKey } from '@connectrpc/connect-query'
import { useQueryClient } from '@tanstack/react-query'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { useEvents } from '../session/live.tsx'

/** Reads the settlements, balances and the calendar again when one completes. */
export function useSettlementRefresh(): void {
  const queries = useQueryClient()
  useEvents((events) => {
    if (!events.some(({ payload }) => payload.case === 'settlement')) return
    void queries.invalidateQueries({
      queryKey: createConnectQueryKey({ schema: SettlementService, cardinality: undefined }),
    })
  })
}
