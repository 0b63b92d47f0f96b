import './styles/tokens.css'
import './styles/base.css'
import './styles/frame.css'
import './styles/controls.css'
import './styles/lists.css'
import { createRoot } from 'react-dom/client'
import { App } from './app/app.tsx'
import { applyTheme } from './app/theme.ts'

applyTheme()
const root = document.getElementById('root')
if (root) createRoot(root).render(<App />)
