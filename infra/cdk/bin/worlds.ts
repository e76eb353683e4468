/**
 * Synthesizes stacks for infra/checks. Reads sets of parameters from stdin, `{"name": {"Parameter": "value"}}`, under `worlds` and
 * `refused`. Writes a template for each of the `worlds`, the error for each of the `refused`, and the list of parameters.
 */
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';

import { App, Stack } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';

import { parameters, parse, UniqueEventBatchAggregator } from '../lib';

const [outdir] = process.argv.slice(2);
if (!outdir) throw new Error('worlds: no output directory: expected `node worlds.js DIRECTORY`');
type Worlds = Record<string, Record<string, string>>;
const { worlds, refused } = JSON.parse(fs.readFileSync(0, 'utf8')) as { worlds: Worlds; refused: Worlds };
const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'code-'));
fs.writeFileSync(path.join(directory, 'bootstrap'), '');
const app = new App({ outdir, context: { 'aws:cdk:enable-path-metadata': true } });
const service = (stack: Stack, chosen: Record<string, string>) => {
  const code = lambda.Code.fromAsset(directory);
  new UniqueEventBatchAggregator(stack, 'Service', {
    ...parse((parameter) => chosen[parameter.charAt(0).toUpperCase() + parameter.slice(1)]),
    code: { aggregator: code, batchProcessor: code },
  });
};
for (const [name, chosen] of Object.entries(worlds)) service(new Stack(app, name), chosen);
app.synth();
const said = Object.entries(refused).map(([name, chosen]) => {
  try {
    service(new Stack(new App(), name), chosen);
    return [name, ''];
  } catch (error) {
    return [name, String(error)];
  }
});
fs.writeFileSync(path.join(outdir, 'refused.json'), JSON.stringify(Object.fromEntries(said)));
fs.rmSync(directory, { recursive: true });
const plain = Object.entries(parameters).map(([name, spec]) => [
  name,
  { ...spec, ...('pattern' in spec ? { pattern: spec.pattern.source } : {}) },
]);
fs.writeFileSync(path.join(outdir, 'parameters.json'), JSON.stringify(Object.fromEntries(plain)));
