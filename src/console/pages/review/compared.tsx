import type { ReactNode } from 'react'

/** One fact as both sides have it. */
export interface ComparedFact {
  readonly name: string
  readonly ours: ReactNode
  readonly theirs: ReactNode
  readonly differs: boolean
}

/** Two sides of the same payment; what differs is marked, not by colour alone. */
export function Compared({
  ours,
  theirs,
  facts,
}: {
  /** The titles of the sides. */
  readonly ours: string
  readonly theirs: string
  readonly facts: readonly ComparedFact[]
}) {
  return (
    <div className="table-frame scrolls">
      <table className="table compared">
        <thead>
          <tr>
            <th scope="col">
              <span className="hidden">Fact</span>
            </th>
            <th scope="col">{ours}</th>
            <th scope="col">{theirs}</th>
          </tr>
        </thead>
        <tbody>
          {facts.map((fact) => (
            <tr key={fact.name} className={fact.differs ? 'differs' : undefined}>
              <th scope="row">{fact.name}</th>
              <td>
                {fact.differs && '≠ '}
                {fact.ours}
              </td>
              <td>
                {fact.differs && '≠ '}
                {fact.theirs}
                {fact.differs && <span className="hidden"> differs</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
