import {
  createContext,
  type HTMLInputTypeAttribute,
  type ReactNode,
  useContext,
  useEffect,
  useId,
  useMemo,
  useRef,
  useState,
} from 'react'
import type { Choice } from '../format/enums.ts'
import { Failure, failureOf } from './page.tsx'

interface FieldProps {
  /** The path of the field in the request's JSON. */
  readonly name: string
  readonly label: ReactNode
  readonly hint?: ReactNode
  readonly required?: boolean
}

/** The properties that a control gets from its field. */
interface ControlProps {
  readonly id: string
  readonly name: string
  readonly 'aria-invalid'?: boolean
  readonly 'aria-describedby'?: string
}

interface LabelledProps extends FieldProps {
  readonly children: (control: ControlProps) => ReactNode
}

/** The label of a field, its control, its fault, and a hint. */
function Labelled({ name, label, hint, children }: LabelledProps) {
  const id = useId()
  const violation = useViolation(name)
  const fault = { 'aria-invalid': true, 'aria-describedby': `${id}-fault` }
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({ id, name, ...(violation !== undefined && fault) })}
      {hint !== undefined && <span className="hint">{hint}</span>}
      {violation !== undefined && (
        <span className="fault" id={`${id}-fault`}>
          {violation}
        </span>
      )}
    </div>
  )
}

interface TextFieldProps extends FieldProps {
  readonly type?: HTMLInputTypeAttribute
  readonly value?: string | number
  readonly placeholder?: string
  readonly maxLength?: number
  readonly min?: number
  readonly max?: number
  readonly pattern?: string
  /** The id of a list of suggestions. */
  readonly list?: string
  /** The fault of the current value, in place of `check`; empty: the value is valid. */
  readonly fault?: string
  /** @returns the fault of a text; undefined: the text is valid */
  readonly check?: (text: string) => string | undefined
  /** The kinds of files that can be chosen. */
  readonly accept?: string
  readonly onFile?: (file: File | undefined) => void
}

export function TextField(props: TextFieldProps) {
  const { label, hint, value, check, fault, onFile, type = 'text', ...rest } = props
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => {
    if (fault !== undefined) input.current?.setCustomValidity(fault)
  }, [fault])
  return (
    <Labelled name={rest.name} label={label} hint={hint}>
      {(control) => (
        <input
          {...rest}
          {...control}
          ref={input}
          type={type}
          defaultValue={value}
          autoComplete="off"
          onInput={({ currentTarget }) => {
            if (fault !== undefined) return
            const text = currentTarget.value.trim()
            currentTarget.setCustomValidity(text === '' ? '' : (check?.(text) ?? ''))
          }}
          onChange={({ currentTarget }) => onFile?.(currentTarget.files?.[0])}
        />
      )}
    </Labelled>
  )
}

interface AreaFieldProps extends FieldProps {
  readonly value?: string
  readonly placeholder?: string
  readonly maxLength?: number
  readonly rows?: number
}

export function AreaField({ label, hint, value, rows = 3, ...rest }: AreaFieldProps) {
  return (
    <Labelled name={rest.name} label={label} hint={hint}>
      {(control) => (
        <textarea {...rest} {...control} rows={rows} defaultValue={value} spellCheck={false} />
      )}
    </Labelled>
  )
}

interface SelectFieldProps extends FieldProps {
  readonly choices: readonly Choice[]
  readonly value?: string
  readonly onChoose?: (value: string) => void
}

export function SelectField(props: SelectFieldProps) {
  const { name, label, hint, choices, value, onChoose, required } = props
  return (
    <Labelled name={name} label={label} hint={hint}>
      {(control) => (
        <select
          {...control}
          required={required}
          defaultValue={value}
          onChange={(event) => onChoose?.(event.target.value)}
        >
          <Options choices={choices} />
        </select>
      )}
    </Labelled>
  )
}

/** The options of a `select`. */
export function Options({ choices }: { choices: readonly Choice[] }) {
  return choices.map(({ value, label }, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: choices may have equal values, and do not move
    <option key={index} value={value}>
      {label}
    </option>
  ))
}

/** A controlled checkbox with its label. */
export function Tick(props: { isOn: boolean; onChange: (isOn: boolean) => void; label: string }) {
  return (
    <label className="choice">
      <input
        type="checkbox"
        checked={props.isOn}
        onChange={(event) => props.onChange(event.target.checked)}
      />{' '}
      {props.label}
    </label>
  )
}

export function CheckField({ name, label, isOn }: { name: string; label: string; isOn: boolean }) {
  const violation = useViolation(name)
  return (
    <div>
      <label className="choice">
        <input type="checkbox" name={name} defaultChecked={isOn} /> {label}
      </label>
      {violation !== undefined && <span className="fault">{violation}</span>}
    </div>
  )
}

interface ChecksFieldProps extends FieldProps {
  readonly choices: readonly Choice[]
  readonly values?: readonly string[]
}

/** Checkboxes, of which any number can be chosen; at least one if the field is required. */
export function ChecksField({
  name,
  label,
  hint,
  choices,
  values = [],
  required = false,
}: ChecksFieldProps) {
  const violation = useViolation(name)
  const [chosen, setChosen] = useState(new Set(values))
  const toggle = (value: string) => setChosen(chosen.symmetricDifference(new Set([value])))
  return (
    <fieldset className="field">
      <legend>{label}</legend>
      <div className="checks">
        {choices.map((choice, index) => (
          <label key={choice.value} className="choice">
            <input
              type="checkbox"
              name={name}
              value={choice.value}
              checked={chosen.has(choice.value)}
              required={required && index === 0 && chosen.size === 0}
              onChange={() => toggle(choice.value)}
            />{' '}
            {choice.label}
          </label>
        ))}
      </div>
      {hint !== undefined && <span className="hint">{hint}</span>}
      {violation !== undefined && <span className="fault">{violation}</span>}
    </fieldset>
  )
}

interface Violation {
  readonly field: string
  readonly description: string
}

interface Violations {
  /** The violations that the service reported for a field and its parts. */
  of(name: string): readonly Violation[]
  /** Registers that a field shows its violations itself. @returns a function that ends this */
  show(name: string): () => void
}

const ViolationsContext = createContext<Violations>({ of: () => [], show: () => () => {} })

/**
 * Shows each violation of a request next to its field, and the other faults below the fields. Fields have their names in the
 * request's JSON: `options.rateLimit`, `allowedCidrs`.
 */
export function FormFault({ error, children }: { error: unknown; children: ReactNode }) {
  const shown = useRef(new Set<string>())
  const value = useMemo<Violations>(() => {
    const fields = error ? failureOf(error).fields : []
    return {
      of: (name) => fields.filter(({ field }) => isPart(field, name)),
      show(name) {
        shown.current.add(name)
        return () => shown.current.delete(name)
      },
    }
  }, [error])
  const isShown = (field: string) => [...shown.current].some((name) => isPart(field, name))
  return (
    <ViolationsContext value={value}>
      {children}
      {error !== null && error !== undefined && <Failure error={error} isShown={isShown} />}
    </ViolationsContext>
  )
}

/** Whether a path of a request is a field or a part of it. */
function isPart(path: string, name: string): boolean {
  return path === name || path.startsWith(`${name}.`) || path.startsWith(`${name}[`)
}

/** The violation of a field, which the field shows. */
function useViolation(name: string): string | undefined {
  return useViolations(name)[0]?.description
}

/** The violations of a field and its parts, which the caller shows. */
export function useViolations(name: string): readonly Violation[] {
  const violations = useContext(ViolationsContext)
  useEffect(() => violations.show(name), [violations, name])
  return violations.of(name)
}
