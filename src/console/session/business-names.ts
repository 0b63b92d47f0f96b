import { useQuery } from '@connectrpc/connect-query'
import { createContext, useMemo } from 'react'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'

/** The most ids that one call looks up. */
const IDS_MAX = 200

type NameOf = (businessId: string) => string

/** The names of the businesses in a list. */
export const BusinessNames = createContext<NameOf>((id) => id)

/** Returns the names of businesses by their ids; the id itself until its name is known. */
export function useBusinessNames(ids: readonly string[]): NameOf {
  const businessIds = [...new Set(ids)].sort().slice(0, IDS_MAX)
  const { data } = useQuery(
    BusinessService.method.listBusinesses,
    { businessIds, pageSize: IDS_MAX },
    {
      enabled: businessIds.length > 0,
      staleTime: 60_000,
      placeholderData: (previous) => previous,
    },
  )
  return useMemo(() => {
    const names = new Map(data?.businesses.map(({ id, name }) => [id, name]))
    return (id) => names.get(id) ?? id
  }, [data])
}

/** The name of a business, or its id until the name is known. */
export function useBusinessName(businessId: string): string {
  const { data } = useQuery(
    BusinessService.method.getBusiness,
    { businessId },
    { enabled: businessId !== '', staleTime: 60_000 },
  )
  return data?.business?.name ?? businessId
}
