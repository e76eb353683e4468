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
  ];
  for (const queue of queues) {
    Validations.of(queue).acknowledge({
      id: 'AwsSolutions-SQS4',
      reason:
        'No queue has a policy: only roles of this account may use it, and the SDKs speak TLS. Who lets other accounts in writes the policy.',
    });
  }
  Validations.of(service.quarantineQueue).acknowledge({
    id: 'AwsSolutions-SQS3',
    reason: 'Nothing takes from it but people, so nothing can come back too often.',
  });
}
