/** Lines in place of what loads. The style shows them only after 150 ms. */
export function Waiting({ rows = 6 }: { readonly rows?: number }) {
  return (
    <div className="bones" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines are all the same
        <span key={index} className="bone" />
      ))}
    </div>
  )
}
