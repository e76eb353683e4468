/** Deploys the service. `-c name=value` sets a parameter; `-c code=DIRECTORY` is the folder of the zips of `cargo lambda build`. */
import * as path from 'node:path';

import { App, CfnOutput, Stack, Validations } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import { AwsSolutionsChecks } from 'cdk-nag';

import { parse, UniqueEventBatchAggregator } from '../lib';
import { acknowledge } from '../lib/nag';

const app = new App();
const stack = new Stack(app, app.node.tryGetContext('stack') ?? 'UniqueEventBatchAggregator', {
  description: 'Unique-event batch aggregator: groups bursts of SQS events into few, large batches without duplicate events.',
});
const directory = app.node.tryGetContext('code') ?? path.join(__dirname, '../../../../target/lambda');
const code = (name: string) => lambda.Code.fromAsset(path.join(directory, name, 'bootstrap.zip'));
const service = new UniqueEventBatchAggregator(stack, 'Service', {
  ...parse((name) => app.node.tryGetContext(name)),
  code: { aggregator: code('aggregator'), batchProcessor: code('batch-processor') },
});
acknowledge(service);
Validations.of(app).addPlugins(new AwsSolutionsChecks(app));

for (const [name, value] of Object.entries({
  InputQueueUrl: service.inputQueue.queueUrl,
  InputQueueArn: service.inputQueue.queueArn,
  BatchQueueUrl: service.batchQueue.queueUrl,
  QuarantineQueueUrl: service.quarantineQueue.queueUrl,
  InputDeadLetterQueueUrl: service.inputDeadLetterQueue.queueUrl,
  BatchDeadLetterQueueUrl: service.batchDeadLetterQueue.queueUrl,
  LockTableName: service.lockTable.tableName,
  BatchTableName: service.batchTable.tableName,
  ...(service.chunkBucket && { ChunkBucketName: service.chunkBucket.bucketName }),
  AggregatorName: service.aggregator.functionName,
  BatchProcessorName: service.batchProcessor.functionName,
})) {
  new CfnOutput(stack, name, { value });
}
app.synth();
