import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Facts } from '../ui/page.tsx'

const KEYS = [
  ['/', 'Search; also Ctrl K'],
  ['j k', 'Next row, previous row'],
  ['Enter', 'Open the row'],
  ['Escape', 'Close the open dialog or menu'],
  ['?', 'These shortcuts'],
] as const

const REVIEW_KEYS = [
  ['a', 'Assign, accept'],
  ['r', 'Return'],
  ['s', 'Skip'],
  ['t', 'Take or release'],
] as const

/** Lists all keyboard shortcuts. @param pages the letter and title of each page that the viewer may open */
export default function ShortcutHelp({
  pages,
  onClose,
}: {
  readonly pages: readonly (readonly [letter: string, title: string])[]
  readonly onClose: () => void
}) {
  const factsOf = (keys: readonly (readonly [string, string])[]) =>
    keys.map(([key, does]) => [does, <kbd key={key}>{key}</kbd>] as const)
  const opening = pages.map(([letter, title]) => [`g ${letter}`, title] as const)
  const mayReview = pages.some(([, title]) => title === 'Review')
  return (
    <Dialog title="Keyboard shortcuts" isOpen onClose={onClose}>
      <Facts facts={[...factsOf(KEYS), ...factsOf(opening)]} />
      {mayReview && (
        <>
          <h3>In Review</h3>
          <Facts facts={factsOf(REVIEW_KEYS)} />
        </>
      )}
      <div className="dialog-buttons">
        <Button onClick={onClose}>Close</Button>
      </div>
    </Dialog>
  )
}
