/**
 * Synthesizes stacks for infra/checks. Reads a list of runs from stdin: `[{"lib", "outdir", "worlds", "refused"}]`. `lib` is the
 * folder of the built construct, so that one process, which loads the CDK once, can check many variants of it. `worlds` and `refused`
 * are sets of parameters, `{"name": {"Parameter": "value"}}`.
 *
 * Writes to `outdir` a template for each of the `worlds`, the error for each of the `refused`, and the list of parameters; or, if that
 * fails, `error.txt`.
 */
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';

import { App, Stack } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';

type Construct = typeof import('../lib');
type Worlds = Record<string, Record<string, string>>;
interface Run {
  readonly lib: string;
  readonly outdir: string;
  readonly worlds: Worlds;
  readonly refused: Worlds;
}

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'code-'));
fs.writeFileSync(path.join(directory, 'bootstrap'), '');

function synthesize({ lib, outdir, worlds, refused }: Run) {
  const { parameters, parse, UniqueEventBatchAggregator } = require(lib) as Construct;
  const service = (stack: Stack, chosen: Record<string, string>) => {
    const code = lambda.Code.fromAsset(directory);
    new UniqueEventBatchAggregator(stack, 'Service', {
      ...parse((parameter) => chosen[parameter.charAt(0).toUpperCase() + parameter.slice(1)]),
      code: { aggregator: code, batchProcessor: code },
    });
  };
  const app = new App({ outdir, context: { 'aws:cdk:enable-path-metadata': true } });
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
  const plain = Object.entries(parameters).map(([name, spec]) => [
    name,
    { ...spec, ...('pattern' in spec ? { pattern: spec.pattern.source } : {}) },
  ]);
  fs.writeFileSync(path.join(outdir, 'parameters.json'), JSON.stringify(Object.fromEntries(plain)));
}

for (const run of JSON.parse(fs.readFileSync(0, 'utf8')) as Run[]) {
  try {
    synthesize(run);
  } catch (error) {
    fs.writeFileSync(path.join(run.outdir, 'error.txt'), String(error));
  }
}
fs.rmSync(directory, { recursive: true });
