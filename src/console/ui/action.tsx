import type {
  DescMessage,
  DescMethod,
  DescMethodUnary,
  MessageInitShape,
  MessageShape,
} from '@bufbuild/protobuf'
import { createClient } from '@connectrpc/connect'
import { useMutation, useTransport } from '@connectrpc/connect-query'
import { useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useEffect, useId, useState } from 'react'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { useMay } from '../session/session.tsx'
import { Button, type ButtonProps, CommandLine } from './button.tsx'
import { Dialog } from './dialog.tsx'
import { dropDraft, useDraft, useDraftName } from './drafts.ts'
import { AreaField, FormFault, Tick } from './fields.tsx'
import { type FieldSpecs, Fields, type FormValues, readForm, readRequest } from './form.tsx'

interface ActionProps<I extends DescMessage, O extends DescMessage> {
  readonly method: DescMethodUnary<I, O>
  readonly label: string
  /** The parts of the request that are not fields of the form, or a function that makes them from the fields. */
  readonly request:
    | MessageInitShape<I>
    | ((form: FormValues, read: Partial<MessageShape<I>>) => MessageInitShape<I>)
  /** The effect of the action, in a sentence. */
  readonly says: ReactNode
  /** The label of the field for the reason or note, if the contract requires one. */
  readonly reason?: string
  readonly fields?: FieldSpecs
  /** The initial values of the fields. */
  readonly values?: object
  /** Custom fields, named by their paths in the request's JSON. They are created anew each time. */
  readonly children?: ReactNode
  readonly kind?: ButtonProps['kind']
  readonly icon?: ButtonProps['icon']
  /**
   * Returns the text of a second step, which asks for confirmation of the request, for actions that cannot be undone. A fault
   * leads back to the fields.
   */
  readonly confirm?: (request: MessageInitShape<I>) => ReactNode
  /** The target of the audit entry that the result names, such as the id of the payment. */
  readonly target: string | ((response: MessageShape<O>) => string)
  /** False: the action is no longer possible. Its result is still shown until the viewer closes it. */
  readonly isOffered?: boolean
  /** The text of the result, in place of "Done." */
  readonly result?: (response: MessageShape<O>) => ReactNode
  readonly secret?: (response: MessageShape<O>) => string | undefined
  readonly secretNote?: string
  /** Called when the action is done. */
  readonly onDone?: () => void
  /** Data are read again only when the viewer closes the result: the page of the button may no longer exist then. */
  readonly isReadLater?: boolean
  /** Called when the viewer closes the result. Implies `isReadLater`. */
  readonly onClosed?: (response: MessageShape<O>) => void
}

/**
 * A button for a change: it states its effect, asks for confirmation once, and shows the result with the id of the audit
 * entry in the same dialog. It is hidden from callers who may not call the method. Afterwards, all data are read again.
 */
export function Action<I extends DescMessage, O extends DescMessage>(props: ActionProps<I, O>) {
  const { method, label, kind, icon, isOffered = true } = props
  const [isOpen, setOpen] = useState(false)
  const mayCall = useMay()(method)
  if (!mayCall) return null
  return (
    <>
      {isOffered && (
        <Button {...(kind && { kind })} {...(icon && { icon })} onClick={() => setOpen(true)}>
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
  const { method, label, target, onClose } = props
  const [response, setResponse] = useState<MessageShape<O>>()
  const [entryId, setEntryId] = useState('')
  const [isKept, setKept] = useState(false)
  const queries = useQueryClient()
  const draft = useDraftName(method.name, label, typeof target === 'string' ? target : '')
  const findEntry = useAuditEntry()
  const call = useMutation(method)
  // Reading the list again could remove the row of the button, and with it a secret that is shown only once.
  const isReadLater =
    props.isReadLater || props.onClosed !== undefined || props.secret !== undefined
  const run = (form: HTMLFormElement) =>
    call.mutate(requestOf(props, form), {
      onSuccess: (done) => {
        dropDraft(draft)
        setResponse(done)
        props.onDone?.()
        void findEntry(typeof target === 'string' ? target : target(done)).then(setEntryId)
        if (!isReadLater) void queries.invalidateQueries()
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
        <Question {...props} draft={draft} run={run} isBusy={call.isPending} error={call.error} />
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

function requestOf<I extends DescMessage, O extends DescMessage>(
  { method, request }: ActionProps<I, O>,
  form: HTMLFormElement,
): MessageInitShape<I> {
  const read = readRequest(method.input, form) as Partial<MessageShape<I>>
  const given =
    typeof request === 'function' ? request(readForm(new FormData(form)), read) : request
  return { ...read, ...given } as MessageInitShape<I>
}

function Question<I extends DescMessage, O extends DescMessage>(
  props: ActionProps<I, O> & {
    readonly run: (form: HTMLFormElement) => void
    readonly isBusy: boolean
    readonly error: unknown
    /** The name of the draft. */
    readonly draft: string
    readonly onClose: () => void
  },
) {
  const { method, label, kind, says, reason, fields, values = {}, children, confirm } = props
  const { run, isBusy, error, draft, onClose } = props
  const id = useId()
  const kept = useDraft(draft)
  const [asked, setAsked] = useState<MessageInitShape<I>>()
  useEffect(() => {
    if (error) setAsked(undefined)
  }, [error])
  const cancel = () => {
    dropDraft(draft)
    onClose()
  }
  return (
    <>
      <form
        id={id}
        ref={kept}
        hidden={asked !== undefined}
        onSubmit={(event) => {
          event.preventDefault()
          const form = event.currentTarget
          if (confirm && asked === undefined) setAsked(requestOf(props, form))
          else run(form)
        }}
      >
        <div>{says}</div>
        <FormFault error={error}>
          {fields && <Fields of={method.input} show={fields} values={values} />}
          {children}
          {reason !== undefined && (
            <AreaField name={reasonOf(method)} label={reason} required maxLength={500} />
          )}
        </FormFault>
      </form>
      {asked && (
        <div className="asked" ref={focusOn} tabIndex={-1}>
          {confirm?.(asked)}
        </div>
      )}
      <div className="dialog-buttons">
        {asked ? (
          <Button onClick={() => setAsked(undefined)}>Back</Button>
        ) : (
          <Button onClick={cancel}>Cancel</Button>
        )}
        <Button
          type="submit"
          form={id}
          kind={kind === 'danger' ? 'danger' : 'primary'}
          busy={isBusy}
          onClick={(event) => {
            // The second click of a double click was meant for the previous button at this place.
            if (asked && event.detail > 1) event.preventDefault()
          }}
        >
          {confirm && !asked ? 'Continue' : label}
        </Button>
      </div>
    </>
  )
}

function focusOn(element: HTMLElement | null): void {
  element?.focus()
}

/** The request field for the reason. */
export function reasonOf({ input }: DescMethod): string {
  return input.field['note'] ? 'note' : 'reason'
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

/** A secret that is shown once, and the checkbox with which the viewer confirms to have kept it. */
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
      <Tick isOn={isKept} onChange={setKept} label="I have kept it" />
    </>
  )
}

/** Revokes a credential or an approval permanently. The viewer sees the result before the row changes. */
export function Revoke<I extends DescMessage, O extends DescMessage>(
  props: Pick<ActionProps<I, O>, 'method' | 'request' | 'says'> & { readonly target: string },
) {
  return <Action {...props} label="Revoke" kind="danger" isReadLater />
}
