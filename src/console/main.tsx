import './styles/tokens.css'
import './styles/base.css'
import './styles/frame.css'
import './styles/controls.css'
import './styles/lists.css'
import './styles/pages.css'
import './styles/overview.css'
import './styles/webhooks.css'
import './styles/payment.css'
import './styles/events.css'
import './styles/review.css'
import './styles/settlement.css'
import './styles/reconciliation.css'
import { drawConsole } from './app/app.tsx'

const root = document.getElementById('root')
if (root) void drawConsole(root)
