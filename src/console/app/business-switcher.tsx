import { useQuery } from '@connectrpc/connect-query'
import { useDeferredValue, useState } from 'react'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { useMay, useSession } from '../session/session.tsx'
import { useShownObject } from '../session/shown-object.tsx'
import { useChooseScope, useViewScope } from '../session/view-scope.ts'
import { Popover } from '../ui/controls/popover.tsx'

/** The most that the list shows; typing finds the others. */
const SHOWN_MAX = 20

/** Chooses the business that all pages show, or all of them. */
export function BusinessSwitcher() {
  const { businessIds } = useSession()
  const scope = useViewScope()
  const shown = useShownObject()
  const choose = useChooseScope()
  const [typed, setTyped] = useState('')
  const query = useDeferredValue(typed.trim())
  const mayList = useMay()(BusinessService.method.listBusinesses)
  const found = useQuery(
    BusinessService.method.listBusinesses,
    { query, pageSize: SHOWN_MAX },
    { enabled: mayList, placeholderData: (previous) => previous },
  )
  const businessId = shown?.businessId ?? scope.businessId
  const name = useBusinessName(businessId)
  if (!mayList || businessIds.length === 1) return <span className="business">{name}</span>
  const none = shown ? 'No business' : 'All businesses'
  return (
    <Popover label={businessId === '' ? none : name} isSet={businessId !== ''}>
      <input
        aria-label="Find a business"
        placeholder="Name, alias or id"
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
      />
      <ul className="choices">
        <li>
          <button type="button" onClick={() => choose({ business: '' })}>
            All businesses
          </button>
        </li>
        {found.data?.businesses.map((business) => (
          <li key={business.id}>
            <button type="button" onClick={() => choose({ business: business.id })}>
              {business.name} <span className="faint">{business.id}</span>
            </button>
          </li>
        ))}
      </ul>
    </Popover>
  )
}

/** The name of a business, or its id until it is known. */
export function useBusinessName(businessId: string): string {
  const { data } = useQuery(
    BusinessService.method.getBusiness,
    { businessId },
    { enabled: businessId !== '', staleTime: 60_000 },
  )
  return data?.business?.name ?? businessId
}
