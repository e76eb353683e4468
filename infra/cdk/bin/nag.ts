import { type CfnResource, Stack, Validations } from 'aws-cdk-lib';

import type { UniqueEventBatchAggregator } from '../lib';

/**
 * Acknowledges the findings of cdk-nag that are intended, with the reasons. `places` are each `bucket` or `bucket/prefix`, not of this
 * stack, that the service writes objects to or reads them from.
 */
export function acknowledge(service: UniqueEventBatchAggregator, places: string[]): void {
  const queues = [
    service.inputQueue,
    service.batchQueue,
    service.inputDeadLetterQueue,
    service.batchDeadLetterQueue,
    service.quarantineQueue,
    service.sweepDeadLetterQueue,
  ];
  for (const queue of queues) {
    Validations.of(queue).acknowledge({
      id: 'AwsSolutions-SQS4',
      reason:
        'Only roles of this account can use the queues, and EventBridge the queue of failed sweeps; all of them use TLS. Access of another account needs a policy.',
    });
  }
  for (const queue of [service.quarantineQueue, service.sweepDeadLetterQueue]) {
    Validations.of(queue).acknowledge({
      id: 'AwsSolutions-SQS3',
      reason: 'Only operators read this queue, so it needs no dead-letter queue.',
    });
  }
  Validations.of(service.chunkBucket).acknowledge({
    id: 'AwsSolutions-S1',
    reason: 'Only the two roles use the bucket. A log of their requests would need a bucket of its own.',
  });
  const name = Stack.of(service).getLogicalId(service.chunkBucket.node.defaultChild as CfnResource);
  const wildcards: Record<string, string> = {
    'Action::kms:GenerateDataKey*': 'Variants of one action on one key, which SQS and DynamoDB choose; allowed only through these services.',
    'Action::kms:ReEncrypt*': 'Variants of one action on one key, which SQS and DynamoDB choose; allowed only through these services.',
    [`Resource::<${name}.Arn>/chunks/*`]: 'The names of loads and runs are made when they are stored.',
    ...Object.fromEntries(
      places.map((place) => [`Resource::arn:<AWS::Partition>:s3:::${place}/*`, 'The names of objects begin with the id of their batch, and the consumer names answers.']),
    ),
  };
  for (const [what, reason] of Object.entries(wildcards)) {
    Validations.of(service).acknowledge({ id: `AwsSolutions-IAM5[${what}]`, reason });
  }
}
