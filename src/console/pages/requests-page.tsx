import { useState } from 'react'
import {
  type ApiRequest,
  ApiRequestSchema,
} from '../../../gen/inflow/business/v1/api_request_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { shorten } from '../format/ids.ts'
import { count } from '../format/money.ts'
import { useUrlState, useViewScope } from '../session/view-scope.tsx'
import { Button, Code } from '../ui/button.tsx'
import { columnsOf, MessageFacts } from '../ui/columns.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { ChoiceFilter, FilterBar, TextFilter, TimeFilter, useTimeRange } from '../ui/filters.tsx'
import { List, usePagedList } from '../ui/list.tsx'
import { Empty, Page } from '../ui/page.tsx'
import { Id, Status } from '../ui/values.tsx'
import { useKeys } from './credentials.tsx'

const CLASSES = [
  { value: '2', label: 'Succeeded (2xx)' },
  { value: '4', label: 'Refused (4xx)' },
  { value: '5', label: 'Failed (5xx)' },
]

/** How often the list is read while only its first page is shown, so that new requests appear. */
const REFETCH_MS = 10_000
const PAGE_SIZE = 50

export function RequestsPage() {
  const [opened, setOpened] = useState<ApiRequest>()
  const list = useRequests()
  return (
    <Page title="API requests" isWide>
      <FilterBar>
        <ChoiceFilter name="status" label="Status" choices={CLASSES} />
        <KeyFilter />
        <TextFilter name="path" label="Path" placeholder="getTransaction" />
        <TextFilter name="request" label="Request id" placeholder="req_…" />
        <TimeFilter />
      </FilterBar>
      <List
        label="API requests"
        columns={COLUMNS}
        of={list}
        onOpen={setOpened}
        empty={
          <Empty title="No such requests in the last seven days">
            What a business asks the API for with a secret key appears here within some seconds.
          </Empty>
        }
      />
      <RequestDialog request={opened} onClose={() => setOpened(undefined)} />
    </Page>
  )
}

function useRequests() {
  const { live, businessId } = useViewScope()
  const period = useTimeRange()
  const [statusClass] = useUrlState('status')
  const [keyId] = useUrlState('key')
  const [path] = useUrlState('path')
  const [requestId] = useUrlState('request')
  const request = {
    businessId,
    live,
    keyId,
    path: path.slice(0, 100),
    requestId: requestId.slice(0, 64),
    statusClass: CLASSES.some(({ value }) => value === statusClass) ? Number(statusClass) : 0,
    pageSize: PAGE_SIZE,
    ...period,
  }
  return usePagedList(BusinessService.method.listApiRequests, 'requests', request, {
    staleTime: 0,
    refetchMs: (rows) => rows.length <= PAGE_SIZE && REFETCH_MS,
  })
}

/** A choice of the business's keys in the shown mode; without a business, a key is chosen by its id. */
function KeyFilter() {
  const { live, businessId } = useViewScope()
  const { rows } = useKeys(businessId)
  if (businessId === '') return <TextFilter name="key" label="Key" placeholder="key_…" />
  const choices = rows
    .filter((key) => key.live === live)
    .map(({ id, prefix }) => ({ value: id, label: `${prefix}…` }))
  return <ChoiceFilter name="key" label="Key" choices={choices} />
}

const COLUMNS = columnsOf(ApiRequestSchema, [
  ['Time', 'receivedAt'],
  ['Status', (request) => <Outcome of={request} />],
  ['Business', 'businessId', 'wide'],
  ['Request', (request) => <Path of={request} />],
  ['Took', ({ durationMs }) => `${count(durationMs)} ms`, 'number wide'],
  ['Key', ({ keyId }) => <code title={keyId}>{shorten(keyId, 14)}</code>, 'wide'],
  ['From', ({ address }) => <code>{address}</code>, 'wide extra'],
  ['Request id', 'requestId', 'wide', 'id'],
])

/** The called method and path; on a phone, only the last part of the path. */
function Path({ of: { method, path } }: { readonly of: ApiRequest }) {
  const name = nameOf(path)
  return (
    <code title={`${method} ${path}`}>
      <span className="wide-only">
        {method} {path.slice(0, path.lastIndexOf(name))}
      </span>
      {name}
    </code>
  )
}

/** The last part of a path: `getTransaction`. */
const nameOf = (path: string): string => path.split('/').findLast((part) => part !== '') ?? path

function Outcome({ of: { status, code } }: { readonly of: ApiRequest }) {
  const tone = status < 400 ? 'good' : status < 500 ? 'waiting' : 'bad'
  return <Status tone={tone}>{`${status} ${code.replaceAll('_', ' ') || 'OK'}`}</Status>
}

/** A request with its faults. @param request undefined: the dialog is closed */
function RequestDialog({
  request,
  onClose,
}: {
  readonly request: ApiRequest | undefined
  readonly onClose: () => void
}) {
  if (request === undefined) return null
  const { path, body, code, faults } = request
  return (
    <Dialog title={nameOf(path)} isOpen onClose={onClose}>
      <MessageFacts
        schema={ApiRequestSchema}
        of={request}
        facts={[
          ['Called', ({ method }) => <code className="scopes">{`${method} ${path}`}</code>],
          ['Status', (shown) => <Outcome of={shown} />],
          [
            'Error',
            ({ error }) =>
              code !== '' && (
                <>
                  {error} · <a href={`/docs/errors#${code}`}>About this error</a>
                </>
              ),
          ],
          ['Time', 'receivedAt'],
          ['Took', ({ durationMs }) => `${count(durationMs)} ms`],
          ['Request id', ({ requestId }) => <Id text={requestId} charsMax={22} />],
          ['Key', ({ keyId }) => <Id text={keyId} charsMax={22} />],
          'address',
          ['Over', ({ protocol }) => PROTOCOLS[protocol]],
        ]}
      />
      {faults.length > 0 && (
        <ul className="faults">
          {faults.map(({ field, message }) => (
            <li key={`${field} ${message}`}>
              <code>{field}</code> {message}
            </li>
          ))}
        </ul>
      )}
      {body !== '' && <Code title="Body, without secrets and identity numbers" text={body} />}
      {code !== '' && body === '' && <p className="faint">Its body was not read.</p>}
      <div className="dialog-buttons">
        <Button onClick={onClose}>Close</Button>
      </div>
    </Dialog>
  )
}

const PROTOCOLS: Readonly<Record<string, string>> = {
  rest: 'REST',
  connect: 'Connect',
  grpc: 'gRPC',
}
