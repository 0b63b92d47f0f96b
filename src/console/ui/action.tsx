import type {
  DescMessage,
  DescMethodUnary,
  MessageInitShape,
  MessageShape,
} from '@bufbuild/protobuf'
import { createClient } from '@connectrpc/connect'
import { useMutation, useTransport } from '@connectrpc/connect-query'
import { useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useId, useState } from 'react'
import { AdminService } from '../../../gen/browser/inflow/admin/v1/admin_service_pb.ts'
import { useMay } from '../session/session.tsx'
import { Button, type ButtonProps } from './button.tsx'
import { Dialog } from './dialog.tsx'
import { Failure } from './failure.tsx'

interface ActionProps<I extends DescMessage, O extends DescMessage> {
  readonly method: DescMethodUnary<I, O>
  readonly label: string
  /** The request, with the reason if there is one. */
  readonly request: (reason: string) => MessageInitShape<I>
  /** What it will do, in a sentence. */
  readonly says: ReactNode
  /** The label of the field for the reason, if the contract wants one. */
  readonly reason?: string
  readonly kind?: ButtonProps['kind']
  readonly icon?: ButtonProps['icon']
  /** Whose audit entry the result names, such as the id of the payment. */
  readonly target: string
  readonly disabled?: boolean
  readonly onDone?: (response: MessageShape<O>) => void
}

/**
 * A button for a change: says what it will do, asks once, and shows the result and the id of the audit entry where
 * it was asked for. It is not shown to a caller who may not press it. All data are read again afterwards.
 */
export function Action<I extends DescMessage, O extends DescMessage>(props: ActionProps<I, O>) {
  const { method, label, says, kind, icon, disabled } = props
  const [isOpen, setOpen] = useState(false)
  const [isDone, setDone] = useState(false)
  const [reason, setReason] = useState('')
  const [entryId, setEntryId] = useState('')
  const field = useId()
  const queries = useQueryClient()
  const findEntry = useAuditEntry(props.target)
  const { mutate, isPending, error, reset } = useMutation(method)
  const mayCall = useMay()(method)
  if (!mayCall) return null
  const open = () => {
    reset()
    setDone(false)
    setReason('')
    setEntryId('')
    setOpen(true)
  }
  const run = () =>
    mutate(props.request(reason.trim()), {
      onSuccess: (response) => {
        setDone(true)
        void findEntry().then(setEntryId)
        void queries.invalidateQueries()
        props.onDone?.(response)
      },
    })
  return (
    <>
      <Button {...(kind && { kind })} {...(icon && { icon })} disabled={disabled} onClick={open}>
        {label}
      </Button>
      <Dialog title={label} isOpen={isOpen} onClose={() => setOpen(false)}>
        {isDone ? (
          <div role="status">
            <p>Done.</p>
            {entryId !== '' && (
              <p className="faint">
                Audit entry <code>{entryId}</code>
              </p>
            )}
          </div>
        ) : (
          <form
            id={field}
            onSubmit={(event) => {
              event.preventDefault()
              run()
            }}
          >
            <div>{says}</div>
            {props.reason !== undefined && (
              <label className="field">
                {props.reason}
                <textarea
                  required
                  maxLength={500}
                  rows={3}
                  value={reason}
                  onChange={(event) => setReason(event.target.value)}
                />
              </label>
            )}
            {error && <Failure error={error} />}
          </form>
        )}
        <div className="dialog-buttons">
          <Button onClick={() => setOpen(false)}>{isDone ? 'Close' : 'Cancel'}</Button>
          {!isDone && (
            <Button
              type="submit"
              form={field}
              kind={kind === 'danger' ? 'danger' : 'primary'}
              busy={isPending}
            >
              {label}
            </Button>
          )}
        </div>
      </Dialog>
    </>
  )
}

/** Returns a function that finds the id of the latest audit entry of a target; empty if the caller may not read it. */
function useAuditEntry(target: string): () => Promise<string> {
  const transport = useTransport()
  const mayList = useMay()(AdminService.method.listAuditEntries)
  return async () => {
    if (!mayList || target === '') return ''
    const client = createClient(AdminService, transport)
    const found = await client
      .listAuditEntries({ targetId: target, pageSize: 1 })
      .catch(() => undefined)
    const number = found?.entries[0]?.number
    return number === undefined ? '' : `#${number}`
  }
}
