/**
 * Packs the construct, which jsii builds, installs the tarball into an empty app, and synthesizes there a stack with resources of the
 * same app: a topic, a key, a bucket, a queue, a secret, a function and a state machine.
 */
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';

const root = path.join(__dirname, '../..');
const PROGRAM = `
const { App, Stack, Duration } = require('aws-cdk-lib');
const kms = require('aws-cdk-lib/aws-kms');
const lambda = require('aws-cdk-lib/aws-lambda');
const s3 = require('aws-cdk-lib/aws-s3');
const secretsmanager = require('aws-cdk-lib/aws-secretsmanager');
const sns = require('aws-cdk-lib/aws-sns');
const sqs = require('aws-cdk-lib/aws-sqs');
const stepfunctions = require('aws-cdk-lib/aws-stepfunctions');
const { Sink, UniqueEventBatchAggregator } = require('unique-event-batch-aggregator-cdk');

const app = new App({ outdir: 'out' });
const stack = new Stack(app, 'Stack');
const code = lambda.Code.fromAsset('code');
const bucket = new s3.Bucket(stack, 'Bucket');
const legacy = new lambda.Function(stack, 'Legacy', { code, handler: 'bootstrap', runtime: lambda.Runtime.PROVIDED_AL2023 });
const definitionBody = stepfunctions.DefinitionBody.fromString('{}');
const machine = new stepfunctions.StateMachine(stack, 'Machine', { definitionBody });
const secret = new secretsmanager.Secret(stack, 'Secret');
const common = {
  eventId: 'json:id',
  config: './service.toml',
  alarmTopic: new sns.Topic(stack, 'Topic'),
  encryptionKey: new kms.Key(stack, 'Key'),
  duplicatesQueue: new sqs.Queue(stack, 'Queue'),
  aggregatorTimeout: Duration.seconds(60),
  code: { aggregator: code, batchProcessor: code },
};
const sinks = {
  Bucket: Sink.s3(bucket, { prefix: 'batches' }),
  Function: Sink.lambda(legacy),
  Machine: Sink.stateMachine(machine),
  Http: Sink.http('https://legacy.example', { secret }),
};
for (const [name, sink] of Object.entries(sinks)) {
  const service = new UniqueEventBatchAggregator(stack, 'To' + name, { ...common, sink });
  bucket.grantRead(service.aggregator);
}
app.synth();
`;

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'app-'));
const run = (command: string, ...args: string[]) => execFileSync(command, args, { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] });
try {
  // `prepack` runs jsii.
  run('npm', 'pack', '--silent', '--pack-destination', folder, root);
  const [tarball] = fs.readdirSync(folder).filter((name) => name.endsWith('.tgz'));
  const link = (name: string) => `file:${path.join(root, 'node_modules', name)}`;
  const dependencies = {
    'unique-event-batch-aggregator-cdk': `file:${tarball}`,
    'aws-cdk-lib': link('aws-cdk-lib'),
    constructs: link('constructs'),
  };
  fs.writeFileSync(path.join(folder, 'package.json'), JSON.stringify({ name: 'app', version: '1.0.0', private: true, dependencies }));
  // The dependencies are links to what is installed here, so nothing is downloaded.
  run('npm', 'install', '--offline', '--silent', '--no-audit', '--no-fund', '--legacy-peer-deps');
  fs.mkdirSync(path.join(folder, 'code'));
  fs.writeFileSync(path.join(folder, 'code', 'bootstrap'), '');
  fs.writeFileSync(path.join(folder, 'service.toml'), '[batches]\nmax_size = 1000\n');
  fs.writeFileSync(path.join(folder, 'app.js'), PROGRAM);
  run('node', 'app.js');
  const made = JSON.parse(fs.readFileSync(path.join(folder, 'out', 'Stack.template.json'), 'utf8'));
  const functions = Object.values<{ Type: string }>(made.Resources).filter(({ Type }) => Type === 'AWS::Lambda::Function');
  // Three for each of four services, and the sink.
  if (functions.length !== 13) throw new Error(`the stack has ${functions.length} functions, expected 13`);
} finally {
  fs.rmSync(folder, { recursive: true });
}
