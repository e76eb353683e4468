/**
 * An app that deploys the service, to start from. `-c eventId=…` and `-c sink=…` must be set: the sink is `s3://bucket`,
 * `s3://bucket/prefix` or `log:`. `-c config=PATH` is the configuration file, `-c code=DIRECTORY` the folder of the zips of
 * `cargo xtask package`, `-c architecture=x86_64` the processor they are built for, and `-c stack=NAME` the name of the stack.
 */
import * as path from 'node:path';

import { App, Stack, Validations } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as s3 from 'aws-cdk-lib/aws-s3';
import { AwsSolutionsChecks } from 'cdk-nag';

import { Sink, UniqueEventBatchAggregator } from '../lib';
import { acknowledge } from './nag';

const app = new App();
const stack = new Stack(app, app.node.tryGetContext('stack') ?? 'UniqueEventBatchAggregator', {
  description: 'Unique-event batch aggregator: groups bursts of SQS events into few, large batches without duplicate events.',
});

function required(name: string, expected: string): string {
  const value = app.node.tryGetContext(name);
  if (!value) throw new Error(`${name} is not set, expected -c ${name}=${expected}`);
  return value;
}

function sinkOf(uri: string): Sink {
  if (uri === 'log:') return Sink.log();
  const [, bucket, prefix] = /^s3:\/\/([^/]+)(?:\/(.+))?$/.exec(uri) ?? [];
  if (!bucket) throw new Error(`sink is ${JSON.stringify(uri)}, expected s3://bucket/prefix or log:; another one is written here, in bin/app.ts`);
  return Sink.s3(s3.Bucket.fromBucketName(stack, 'SinkBucket', bucket), { prefix });
}

const uri = required('sink', 's3://bucket/prefix');
const directory = app.node.tryGetContext('code') ?? path.join(__dirname, '../../../../target/lambda');
const code = (name: string) => lambda.Code.fromAsset(path.join(directory, name, 'bootstrap.zip'));
const service = new UniqueEventBatchAggregator(stack, 'Service', {
  eventId: required('eventId', 'json:id'),
  sink: sinkOf(uri),
  config: app.node.tryGetContext('config'),
  architecture: app.node.tryGetContext('architecture') === 'x86_64' ? lambda.Architecture.X86_64 : lambda.Architecture.ARM_64,
  code: { aggregator: code('aggregator'), batchProcessor: code('batch-processor') },
});
acknowledge(service, uri === 'log:' ? [] : [uri.slice('s3://'.length)]);
Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
service.addOutputs();
app.synth();
