/** The outlines of the icons, drawn as strokes in a square of 16 units. */
const PATHS = {
  overview: 'M2 9h5V2H2zM9 14h5V7H9zM2 14h5v-3H2zM9 5h5V2H9z',
  payments: 'M8 2v10M4 8.5 8 12.5 12 8.5M2.5 14.5h11',
  payouts: 'M8 12.5v-10M4 6 8 2l4 4M2.5 14.5h11',
  accounts: 'M2 6.5 8 3l6 3.5M3.5 7v5M6.5 7v5M9.5 7v5M12.5 7v5M2 13.5h12',
  events: 'M2 4h12M2 8h8M2 12h10',
  webhooks: 'M9.5 2.5H14V7M14 2.5 7 9.5M12 9.5V14H2V4h4.5',
  review: 'M8 1.8 15 14H1zM8 6v4M8 12v.2',
  settlement: 'M2 3.5h12v10H2zM2 6.5h12M5 2v3M11 2v3M5 9.5h2M9 9.5h2',
  reconciliation: 'M3 5h9L9.5 2.5M13 11H4l2.5 2.5',
  requests: 'M5.5 4 1.5 8l4 4M10.5 4l4 4-4 4',
  businesses: 'M3 14V2.5h6V14M9 6h4v8M1.5 14h13M5 5.5h2M5 8.5h2M5 11.5h2',
  access: 'M10.5 2a3.5 3.5 0 1 1-3.2 4.9L2 12v2h2.5v-1.5H6V11h1.5l1.4-1.4',
  health: 'M1.5 8.5h3L6.5 4l3 9 2-4.5h3',
  search: 'M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9M10.5 10.5 14 14',
  copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3',
  check: 'M3 8.5 6.5 12 13 4.5',
  dot: 'M8 6.5a1.5 1.5 0 1 1 0 3 1.5 1.5 0 0 1 0-3',
  down: 'M4 6l4 4 4-4',
  right: 'M6 4l4 4-4 4',
  more: 'M3 8h.01M8 8h.01M13 8h.01',
  plus: 'M8 3v10M3 8h10',
  pause: 'M5.5 3.5v9M10.5 3.5v9',
  play: 'M5 3l8 5-8 5z',
  download: 'M8 2v8M4.5 7 8 10.5 11.5 7M2.5 13.5h11',
  out: 'M6 2.5H3v11h3M7 8h7M11 5l3 3-3 3',
} as const

export type IconName = keyof typeof PATHS

/** An icon next to a word; hidden from screen readers. */
export function Icon({ name, size = 16 }: { readonly name: IconName; readonly size?: number }) {
  return (
    <svg className="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  )
}
