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
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { useMay } from '../session/session.tsx'
import { Button, type ButtonProps, CommandLine } from './button.tsx'
import { Dialog } from './dialog.tsx'
import { AreaField, FormFault, type FormValues, readForm } from './form.tsx'

interface ActionProps<I extends DescMessage, O extends DescMessage> {
  readonly method: DescMethodUnary<I, O>
  readonly label: string
  /** The request, with the reason if there is one, and what the fields hold. */
  readonly request: (reason: string, form: FormValues) => MessageInitShape<I>
  /** What it will do, in a sentence. */
  readonly says: ReactNode
  /** The label of the field for the reason, if the contract wants one. */
  readonly reason?: string
  /** The fields of the request, named by their paths in its JSON. They are made anew each time. */
  readonly children?: ReactNode
  readonly kind?: ButtonProps['kind']
  readonly icon?: ButtonProps['icon']
  /** Whose audit entry the result names, such as the id of the payment. */
  readonly target: string | ((response: MessageShape<O>) => string)
  readonly disabled?: boolean
  /** False: there is nothing to do any more. The result of what was done is shown until the viewer closes it. */
  readonly isOffered?: boolean
  /** What the result says in place of "Done." */
  readonly result?: (response: MessageShape<O>) => ReactNode
  /** The secret that the response has, which is shown once. */
  readonly secret?: (response: MessageShape<O>) => string | undefined
  readonly secretNote?: string
  readonly onDone?: (response: MessageShape<O>) => void
  /**
   * Called when the viewer has read the result. The data are read again only then: for a change after which the
   * page of the button is gone.
   */
  readonly onClosed?: (response: MessageShape<O>) => void
}

/**
 * A button for a change: says what it will do, asks once, and shows the result and the id of the audit entry where
 * it was asked for. It is not shown to a caller who may not press it. All data are read again afterwards.
 */
export function Action<I extends DescMessage, O extends DescMessage>(props: ActionProps<I, O>) {
  const { method, label, kind, icon, disabled, isOffered = true } = props
  const [isOpen, setOpen] = useState(false)
  const mayCall = useMay()(method)
  if (!mayCall) return null
  return (
    <>
      {isOffered && (
        <Button
          {...(kind && { kind })}
          {...(icon && { icon })}
          disabled={disabled}
          onClick={() => setOpen(true)}
        >
          {label}
        </Button>
      )}
      {isOpen && <ActionDialog {...props} onClose={() => setOpen(false)} />}
    </>
  )
}

function ActionDialog<I extends DescMessage, O extends DescMessage>(
  props: ActionProps<I, O> & { readonly onClose: () => void },
) {
  const { method, label, onClose } = props
  const [response, setResponse] = useState<MessageShape<O>>()
  const [entryId, setEntryId] = useState('')
  const [isKept, setKept] = useState(false)
  const queries = useQueryClient()
  const findEntry = useAuditEntry()
  const call = useMutation(method)
  // A list that is read again could drop the row of the button, and with it the secret that is shown once.
  const isReadLater = props.onClosed !== undefined || props.secret !== undefined
  const run = (form: FormValues) =>
    call.mutate(props.request(form.text('reason'), form), {
      onSuccess: (done) => {
        setResponse(done)
        const target = typeof props.target === 'string' ? props.target : props.target(done)
        void findEntry(target).then(setEntryId)
        if (!isReadLater) void queries.invalidateQueries()
        props.onDone?.(done)
      },
    })
  const close = () => {
    onClose()
    if (response === undefined || !isReadLater) return
    props.onClosed?.(response)
    void queries.invalidateQueries()
  }
  const secret = response && props.secret?.(response)
  const mustKeep = secret !== undefined && !isKept
  return (
    <Dialog title={label} isOpen onClose={close} mustDecide={secret !== undefined}>
      {response === undefined ? (
        <Question {...props} run={run} isBusy={call.isPending} error={call.error} />
      ) : (
        <>
          <div role="status" className="result">
            {props.result ? props.result(response) : <p>Done.</p>}
            {entryId !== '' && (
              <p className="faint">
                Audit entry <code>{entryId}</code>
              </p>
            )}
          </div>
          {secret !== undefined && (
            <Secret text={secret} note={props.secretNote} isKept={isKept} setKept={setKept} />
          )}
          <div className="dialog-buttons">
            <Button onClick={close} disabled={mustKeep}>
              Close
            </Button>
          </div>
        </>
      )}
    </Dialog>
  )
}

function Question<I extends DescMessage, O extends DescMessage>(
  props: ActionProps<I, O> & {
    readonly run: (form: FormValues) => void
    readonly isBusy: boolean
    readonly error: unknown
    readonly onClose: () => void
  },
) {
  const { label, kind, says, reason, children, run, isBusy, error, onClose } = props
  const id = useId()
  return (
    <>
      <form
        id={id}
        onSubmit={(event) => {
          event.preventDefault()
          run(readForm(new FormData(event.currentTarget)))
        }}
      >
        <div>{says}</div>
        <FormFault error={error}>
          {children}
          {reason !== undefined && (
            <AreaField name="reason" label={reason} required maxLength={500} />
          )}
        </FormFault>
      </form>
      <div className="dialog-buttons">
        <Button onClick={onClose}>Cancel</Button>
        <Button
          type="submit"
          form={id}
          kind={kind === 'danger' ? 'danger' : 'primary'}
          busy={isBusy}
        >
          {label}
        </Button>
      </div>
    </>
  )
}

/** Returns a function that finds the id of the latest audit entry of a target; empty if the caller may not read it. */
function useAuditEntry(): (target: string) => Promise<string> {
  const transport = useTransport()
  const mayList = useMay()(AdminService.method.listAuditEntries)
  return async (target) => {
    if (!mayList || target === '') return ''
    const client = createClient(AdminService, transport)
    const found = await client
      .listAuditEntries({ targetId: target, pageSize: 1 })
      .catch(() => undefined)
    const number = found?.entries[0]?.number
    return number === undefined ? '' : `#${number}`
  }
}

/** A secret that is shown once, and the box that says that it is kept. */
function Secret({
  text,
  note = 'It is shown only now: Inflow cannot show it again.',
  isKept,
  setKept,
}: {
  readonly text: string
  readonly note?: string | undefined
  readonly isKept: boolean
  readonly setKept: (isKept: boolean) => void
}) {
  return (
    <>
      <p>{note}</p>
      <CommandLine text={text} what="the secret" />
      <label className="choice">
        <input
          type="checkbox"
          checked={isKept}
          onChange={(event) => setKept(event.target.checked)}
        />{' '}
        I have kept it
      </label>
    </>
  )
}
