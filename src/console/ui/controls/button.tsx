import type { ComponentProps } from 'react'
import { Icon, type IconName } from '../icons.tsx'

export interface ButtonProps extends ComponentProps<'button'> {
  /** `danger`: it takes money or access away. */
  readonly kind?: 'plain' | 'primary' | 'danger' | 'quiet'
  readonly icon?: IconName
  /** A call is in progress: the button waits for it. */
  readonly busy?: boolean
}

export function Button({ kind = 'plain', icon, busy, children, className, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      className={`button ${kind} ${className ?? ''}`}
      disabled={rest.disabled || busy}
      aria-busy={busy || undefined}
    >
      {icon && <Icon name={icon} size={14} />}
      {children}
    </button>
  )
}
