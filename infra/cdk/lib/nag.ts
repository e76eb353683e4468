import { Validations } from 'aws-cdk-lib';

import type { UniqueEventBatchAggregator } from './aggregator';

/** What cdk-nag objects to, and why it is so all the same. */
export function acknowledge(service: UniqueEventBatchAggregator): void {
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
        'Only roles of this account may use a queue, and EventBridge the one of failed sweeps; they speak TLS. Who lets other accounts in writes the policy.',
    });
  }
  for (const queue of [service.quarantineQueue, service.sweepDeadLetterQueue]) {
    Validations.of(queue).acknowledge({
      id: 'AwsSolutions-SQS3',
      reason: 'Nothing takes from it but people, so nothing can come back too often.',
    });
  }
  const wildcards = {
    'Action::kms:GenerateDataKey*': 'Variants of one action on one key, which SQS and DynamoDB choose, and only through them.',
    'Action::kms:ReEncrypt*': 'Variants of one action on one key, which SQS and DynamoDB choose, and only through them.',
    'Resource::*': 'X-Ray has no resources to name.',
    ...Object.fromEntries(
      service.places.map((place) => [`Resource::arn:<AWS::Partition>:s3:::${place}/*`, 'Objects are called by their batch.']),
    ),
  };
  for (const [what, reason] of Object.entries(wildcards)) {
    Validations.of(service).acknowledge({ id: `AwsSolutions-IAM5[${what}]`, reason });
  }
}
