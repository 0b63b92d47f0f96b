// Runs in the page, after Scalar.
Scalar.createApiReference('#reference', {
  url: '/openapi.json',
  // It is linked above.
  documentDownloadType: 'none',
  hideModels: true,
  defaultOpenAllTags: true,
  operationTitleSource: 'path',
  generateOperationSlug: ({ operationId }) => operationId,
  // Nothing comes from or goes to another origin.
  withDefaultFonts: false,
  telemetry: false,
  proxyUrl: '',
  agent: { disabled: true },
  mcp: { disabled: true },
  // A secret key has no business in a page.
  hideTestRequestButton: true,
  hideClientButton: true,
  showDeveloperTools: 'never',
  hideDarkModeToggle: true,
})
