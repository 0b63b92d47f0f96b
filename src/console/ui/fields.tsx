import {
  createContext,
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

/** The label of a field, what is wrong with it, and a hint. */
function Labelled({
  id,
  props: { label, hint, name },
  children,
}: {
  readonly id: string
  readonly props: FieldProps
  readonly children: ReactNode
}) {
  const violation = useViolation(name)
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children}
      {hint !== undefined && <span className="hint">{hint}</span>}
      {violation !== undefined && (
        <span className="fault" id={`${id}-fault`}>
          {violation}
        </span>
      )}
    </div>
  )
}

function useFaultProps(id: string, name: string) {
  const violation = useViolation(name)
  return violation === undefined
    ? {}
    : ({ 'aria-invalid': true, 'aria-describedby': `${id}-fault` } as const)
}

interface TextFieldProps extends FieldProps {
  readonly type?: 'text' | 'number' | 'url' | 'email' | 'tel' | 'password' | 'datetime-local'
  readonly value?: string | number
  readonly placeholder?: string
  readonly maxLength?: number
  readonly min?: number
  readonly max?: number
  readonly pattern?: string
  /** The id of a list of suggestions. */
  readonly list?: string
  /** @returns why a text is not one; undefined: it is */
  readonly check?: (text: string) => string | undefined
}

export function TextField(props: TextFieldProps) {
  const { label: _label, hint: _hint, value, check, type = 'text', ...rest } = props
  const id = useId()
  return (
    <Labelled id={id} props={props}>
      <input
        {...rest}
        {...useFaultProps(id, props.name)}
        id={id}
        type={type}
        defaultValue={value}
        autoComplete="off"
        onInput={({ currentTarget }) => {
          const text = currentTarget.value.trim()
          currentTarget.setCustomValidity(text === '' ? '' : (check?.(text) ?? ''))
        }}
      />
    </Labelled>
  )
}

interface AreaFieldProps extends FieldProps {
  readonly value?: string
  readonly placeholder?: string
  readonly maxLength?: number
  readonly rows?: number
}

/** Text of several lines. */
export function AreaField(props: AreaFieldProps) {
  const { label: _label, hint: _hint, value, rows = 3, ...rest } = props
  const id = useId()
  return (
    <Labelled id={id} props={props}>
      <textarea
        {...rest}
        {...useFaultProps(id, props.name)}
        id={id}
        rows={rows}
        defaultValue={value}
        spellCheck={false}
      />
    </Labelled>
  )
}

interface SelectFieldProps extends FieldProps {
  readonly choices: readonly Choice[]
  readonly value?: string
  readonly onChoose?: (value: string) => void
}

export function SelectField(props: SelectFieldProps) {
  const { name, choices, value, onChoose, required } = props
  const id = useId()
  return (
    <Labelled id={id} props={props}>
      <select
        id={id}
        name={name}
        required={required}
        {...useFaultProps(id, name)}
        defaultValue={value}
        onChange={(event) => onChoose?.(event.target.value)}
      >
        {choices.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.label}
          </option>
        ))}
      </select>
    </Labelled>
  )
}

interface CheckFieldProps {
  readonly name: string
  readonly label: ReactNode
  readonly isOn?: boolean
}

/** A check box. */
export function CheckField({ name, label, isOn = false }: CheckFieldProps) {
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

/** Check boxes of which any number may be chosen; one at least if it is required. */
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
  const toggle = (value: string) => {
    const next = new Set(chosen)
    if (!next.delete(value)) next.add(value)
    setChosen(next)
  }
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

interface Violations {
  /** What the service found wrong with a field, or with a part of it. */
  of(name: string): string | undefined
  /** Says that a field shows what is wrong with it. @returns a function that ends it */
  show(name: string): () => void
}

const ViolationsContext = createContext<Violations>({ of: () => undefined, show: () => () => {} })

/**
 * Shows the fault of a request beside the field that it names, and the rest below the fields. Fields are named as in
 * the request's JSON: `options.rateLimit`, `allowedCidrs`.
 */
export function FormFault({
  error,
  children,
}: {
  readonly error: unknown
  readonly children: ReactNode
}) {
  const shown = useRef(new Set<string>())
  const value = useMemo<Violations>(() => {
    const fields = error ? failureOf(error).fields : []
    return {
      of: (name) => fields.find(({ field }) => isPart(field, name))?.description,
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

/** Whether a path of a request is a field or lies inside of it. */
function isPart(path: string, name: string): boolean {
  return path === name || path.startsWith(`${name}.`) || path.startsWith(`${name}[`)
}

/** What is wrong with a field, which shows it. */
function useViolation(name: string): string | undefined {
  const violations = useContext(ViolationsContext)
  useEffect(() => violations.show(name), [violations, name])
  return violations.of(name)
}
