/** For infra/checks: one stack for each set of parameters on stdin, `{"name": {"Parameter": "value"}}`; and the parameters. */
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';

import { App, Stack } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';

import { parameters, parse, UniqueEventBatchAggregator } from '../lib';

const [outdir] = process.argv.slice(2);
if (!outdir) throw new Error('where to?');
const worlds = JSON.parse(fs.readFileSync(0, 'utf8')) as Record<string, Record<string, string>>;
const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'code-'));
fs.writeFileSync(path.join(directory, 'bootstrap'), '');
const app = new App({ outdir, context: { 'aws:cdk:enable-path-metadata': true } });
for (const [name, chosen] of Object.entries(worlds)) {
  const stack = new Stack(app, name);
  const code = lambda.Code.fromAsset(directory);
  new UniqueEventBatchAggregator(stack, 'Service', {
    ...parse((parameter) => chosen[parameter.charAt(0).toUpperCase() + parameter.slice(1)]),
    code: { aggregator: code, batchProcessor: code },
  });
}
app.synth();
fs.rmSync(directory, { recursive: true });
const plain = Object.entries(parameters).map(([name, spec]) => [
  name,
  { ...spec, ...('pattern' in spec ? { pattern: spec.pattern.source } : {}) },
]);
fs.writeFileSync(path.join(outdir, 'parameters.json'), JSON.stringify(Object.fromEntries(plain)));
