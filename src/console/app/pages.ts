import type { DescMethod } from '@bufbuild/protobuf'
import type { ComponentType } from 'react'
import type { IconName } from '../ui/icons.tsx'

/** A page of the rail. */
interface RailPage {
  readonly path: string
  readonly title: string
  readonly icon: IconName
  /** The page is shown to a caller who may call this. */
  readonly needs: DescMethod
  readonly component: ComponentType
}

/** The pages in the order of the rail. Each is loaded when it is first opened. */
export const RAIL: readonly RailPage[] = []

/** Pages that are reached from others: patterns of paths. */
export const INNER: readonly (readonly [string, ComponentType])[] = []
