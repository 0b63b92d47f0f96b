import { useQuery } from '@connectrpc/connect-query'
import { useDeferredValue, useId, useState } from 'react'
import { BusinessService } from '../../../../gen/inflow/business/v1/business_service_pb.ts'
import { useViewScope } from '../../session/view-scope.ts'
import { TextField } from './fields.tsx'

/** The most businesses that are suggested; typing finds the others. */
const SUGGESTED_MAX = 20

/** Which business it is for: the one that the pages show, or one that is typed. */
export function BusinessField({ name = 'businessId' }: { readonly name?: string }) {
  const { businessId } = useViewScope()
  const [typed, setTyped] = useState('')
  const query = useDeferredValue(typed.trim())
  const list = useId()
  const found = useQuery(
    BusinessService.method.listBusinesses,
    { query, pageSize: SUGGESTED_MAX },
    { enabled: businessId === '', placeholderData: (previous) => previous },
  )
  if (businessId !== '') return <input type="hidden" name={name} value={businessId} />
  return (
    <div onInput={({ target }) => setTyped((target as HTMLInputElement).value)}>
      <TextField
        name={name}
        label="Business"
        placeholder="Name, alias or biz_…"
        required
        list={list}
        check={(text) => (text.startsWith('biz_') ? undefined : 'Choose a business of the list')}
      />
      <datalist id={list}>
        {found.data?.businesses.map((business) => (
          <option key={business.id} value={business.id}>
            {business.name}
          </option>
        ))}
      </datalist>
    </div>
  )
}
