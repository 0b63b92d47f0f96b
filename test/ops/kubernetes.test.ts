import { execFileSync } from 'node:child_process'
import { readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { IServiceMonitor } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1'
import type { IDeployment } from 'kubernetes-models/apps/v1'
import { expect, test } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { ROOT } from '../support/embedded-service.ts'
import { temporaryFolder } from '../support/folder.ts'
import { isInstalled, OPS, readOps, unknownSettings, type Yaml, yamlOf } from './settings-of.ts'

const FOLDER = join(OPS, 'kubernetes')
const manifests = readdirSync(FOLDER, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.yaml') && !name.endsWith('kustomization.yaml'))
  .flatMap((name) => yamlOf(join('kubernetes', name)))

const of = (kind: string, name = 'inflow') =>
  manifests.find((each) => each.kind === kind && each.metadata.name === name)

const deployment = of('Deployment').spec
const pod = deployment.template.spec
const [container] = pod.containers
const jobPod = of('Job', 'inflow-migrate').spec.template.spec
const settings = of('ConfigMap').data

test('every manifest has the types of Kubernetes, and no field that it does not know', () => {
  expect(manifests.length).toBeGreaterThan(8)
  const folder = temporaryFolder()
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  const check = (all: readonly Yaml[]) => {
    const lines = all.map((manifest, index) => {
      const { apiVersion, kind } = manifest
      const own = apiVersion.startsWith('monitoring.coreos.com/')
      const models = own ? '@kubernetes-models/prometheus-operator' : 'kubernetes-models'
      const imported = `import { type I${kind} as T${index} } from '${models}/${apiVersion}'`
      return `${imported}\nexport const m${index}: T${index} = ${JSON.stringify(manifest)}\n`
    })
    writeFileSync(join(folder, 'manifests.ts'), lines.join(''))
    const options =
      '--noEmit --strict --skipLibCheck --module nodenext --target es2023 --types'.split(' ')
    const args = [...options, '', 'manifests.ts']
    try {
      execFileSync(join(ROOT, 'node_modules/.bin/tsc'), args, { cwd: folder, encoding: 'utf8' })
      return ''
    } catch (error) {
      return (error as { stdout: string }).stdout
    }
  }
  expect(check(manifests)).toBe('')
  const wrong: IDeployment = structuredClone(of('Deployment'))
  Object.assign(wrong.spec!.template.spec!.containers[0]!, { readynessProbe: {} })
  expect(check([wrong])).toContain('readynessProbe')
})

test.skipIf(!isInstalled('kubectl'))('kustomize renders both folders', () => {
  const render = (folder: string) =>
    execFileSync('kubectl', ['kustomize', folder], { encoding: 'utf8' })
  const rendered = render(FOLDER)
  for (const kind of ['ConfigMap', 'Deployment', 'NetworkPolicy', 'PodDisruptionBudget', 'Service'])
    expect(rendered).toContain(`kind: ${kind}\n`)
  expect(rendered).not.toContain('kind: Secret')
  expect(render(join(FOLDER, 'migrate'))).toMatch(/image: inflow:\d+\.\d+\.\d+\n/)
  expect(rendered).toMatch(/image: inflow:\d+\.\d+\.\d+\n/)
})

test('the kustomizations name every manifest but the examples, and pin the image', () => {
  const { version } = JSON.parse(readOps('../../package.json'))
  for (const folder of ['', 'migrate']) {
    const [kustomization] = yamlOf(join('kubernetes', folder, 'kustomization.yaml'))
    const files = readdirSync(join(FOLDER, folder)).filter(
      (name) => name.endsWith('.yaml') && !/^kustomization\.yaml$|\.example\.yaml$/.test(name),
    )
    expect(kustomization.resources.toSorted()).toEqual(files.toSorted())
    expect(kustomization.images).toEqual([{ name: 'inflow', newTag: version }])
  }
})

test('the settings exist, and the service starts with them', () => {
  const { stringData: secrets } = of('Secret')
  expect(unknownSettings([...Object.keys(settings), ...Object.keys(secrets)])).toEqual([])
  expect(unknownSettings(Object.keys(of('Secret', 'inflow-owner').stringData))).toEqual([])
  const filled = {
    DATABASE_URL: secrets.DATABASE_URL.replace('<password>', 'x'),
    MASTER_KEY: Buffer.alloc(32, 9).toString('base64'),
    ADMIN_TOKEN: 'x'.repeat(32),
  }
  expect(Object.keys(filled)).toEqual(Object.keys(secrets))
  expect(readConfig({ ...settings, ...filled }).migrate).toBe(false)
  const names = (each: Yaml) => each.envFrom.map((from: Yaml) => Object.values<Yaml>(from)[0].name)
  expect(names(container)).toEqual(['inflow', 'inflow'])
  // The owner's password is for the migration alone.
  expect(names(jobPod.containers[0])).toEqual(['inflow-owner'])
})

test('ports, probes, services and policies name the ports of the settings', () => {
  const ports = Object.fromEntries(
    container.ports.map((port: Yaml) => [port.name, port.containerPort]),
  )
  expect(ports).toEqual({
    http: Number(settings.HTTP_PORT),
    grpc: Number(settings.GRPC_PORT),
    ops: Number(settings.OPS_PORT),
  })
  for (const probe of ['startupProbe', 'readinessProbe', 'livenessProbe'])
    expect([probe, container[probe].httpGet.port]).toEqual([probe, 'ops'])
  expect(container.readinessProbe.httpGet.path).toBe('/readyz')
  expect(container.livenessProbe.httpGet.path).toBe('/healthz')
  const services = manifests.filter(({ kind }) => kind === 'Service')
  const served = services.flatMap(({ spec }) => spec.ports)
  expect(served.map((port: Yaml) => [port.port, ports[port.targetPort]])).toEqual(
    served.map((port: Yaml) => [port.port, port.port]),
  )
  const allowed = of('NetworkPolicy').spec.ingress.flatMap((rule: Yaml) => rule.ports)
  expect(allowed.map(({ port }: Yaml) => port)).toEqual([ports.http, ports.grpc, ports.ops])
  const annotations = deployment.template.metadata.annotations
  expect(annotations['prometheus.io/port']).toBe(settings.OPS_PORT)
})

test('the ingresses lead to the services, and Prometheus finds the one of operations', () => {
  for (const { spec } of manifests.filter(({ kind }) => kind === 'Ingress')) {
    const { service } = spec.rules[0].http.paths[0].backend
    const ports = of('Service', service.name).spec.ports.map(({ name }: Yaml) => name)
    expect(ports).toEqual([service.port.name])
    expect(spec.tls[0].hosts).toEqual([spec.rules[0].host])
  }
  const monitor: IServiceMonitor = of('ServiceMonitor')
  const { endpoints, selector, jobLabel } = monitor.spec!
  const withPort = manifests.filter(
    ({ kind, spec }) =>
      kind === 'Service' && spec.ports.some(({ name }: Yaml) => name === endpoints[0]!.port),
  )
  expect(withPort.map(({ metadata }) => metadata.name)).toEqual(['inflow-ops'])
  // The label that the kustomization gives each of its resources.
  const [{ labels }] = yamlOf('kubernetes/kustomization.yaml')
  expect(labels[0].pairs).toMatchObject(selector.matchLabels!)
  expect(labels[0].pairs[jobLabel!]).toBe('inflow')
})

test('selectors find the pods', () => {
  const { labels } = deployment.template.metadata
  const selectors = [
    deployment.selector.matchLabels,
    of('PodDisruptionBudget').spec.selector.matchLabels,
    of('NetworkPolicy').spec.podSelector.matchLabels,
    ...manifests.filter(({ kind }) => kind === 'Service').map(({ spec }) => spec.selector),
    ...pod.topologySpreadConstraints.map((each: Yaml) => each.labelSelector.matchLabels),
  ]
  for (const selector of selectors) expect(labels).toMatchObject(selector)
})

test.each([
  ['the service', pod],
  ['the migration', jobPod],
])('the pod of %s is restricted: no root, no writes, no capabilities', (_name, spec) => {
  expect(spec.securityContext).toEqual({
    runAsNonRoot: true,
    seccompProfile: { type: 'RuntimeDefault' },
  })
  expect([spec.automountServiceAccountToken, spec.enableServiceLinks]).toEqual([false, false])
  expect(spec.containers[0].securityContext).toEqual({
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
  })
  expect(spec.containers[0].resources.limits.memory).toBeDefined()
})

test('a stop has time for the delay and for what is in progress, and no pod is missed', () => {
  expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(
    Number(settings.SHUTDOWN_DELAY_SECONDS) + 10,
  )
  expect(deployment.strategy.rollingUpdate).toEqual({ maxSurge: 1, maxUnavailable: 0 })
  expect(deployment.replicas).toBeGreaterThan(1)
})
