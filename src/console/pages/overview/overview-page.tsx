import { Failure } from '../../ui/lists/failure.tsx'
import { Waiting } from '../../ui/lists/waiting.tsx'
import { Page } from '../../ui/page.tsx'
import '../../styles/overview.css'
import { Banks } from './banks.tsx'
import { Health } from './health.tsx'
import { NeedsYou } from './needs-you.tsx'
import { Tiles } from './tiles.tsx'
import { useOverview } from './use-overview.ts'

/** What happened in the last 24 hours, what waits, and whether all is well. */
export function OverviewPage() {
  const { data, error, arrivals, refetch } = useOverview()
  return (
    <Page title="Overview">
      {error && <Failure error={error} onRetry={() => void refetch()} />}
      {data === undefined && !error && <Waiting rows={10} />}
      {data && (
        <>
          <Tiles overview={data} arrivals={arrivals} />
          {data.banks.length > 0 && <Banks banks={data.banks} />}
          <div className={data.health ? 'two-thirds' : undefined}>
            <NeedsYou />
            {data.health && <Health health={data.health} waiting={data.waiting} />}
          </div>
        </>
      )}
    </Page>
  )
}
