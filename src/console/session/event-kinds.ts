import { useQuery } from '@connectrpc/connect-query'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { useMay } from './session.tsx'

/** The kinds of events, as choices of lists and forms. */
export function useEventKinds() {
  const { listEventKinds } = WebhookService.method
  const enabled = useMay()(listEventKinds)
  const read = useQuery(listEventKinds, {}, { enabled, staleTime: Number.POSITIVE_INFINITY })
  return read.data?.kinds
}
