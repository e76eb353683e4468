import { Aws, Stack } from 'aws-cdk-lib';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type * as sqs from 'aws-cdk-lib/aws-sqs';

import type { UniqueEventBatchAggregator } from './aggregator';
import type { Values } from './parameters';

/** Of the functions' own metrics: `shared/src/metrics.rs`. */
const NAMESPACE = 'UniqueEventBatchAggregator';

/** What an alarm looks at, and what about it. */
interface Watched {
  readonly namespace: string;
  readonly metricName: string;
  readonly dimensions: Record<string, string>;
  readonly statistic: string;
  readonly threshold?: number;
  readonly period: number;
  readonly evaluationPeriods: number;
  readonly treatMissingData?: string;
}

const ofQueue = (queue: sqs.Queue) => ({ QueueName: queue.queueName });
const ofFunction = (of: lambda.Function) => ({ FunctionName: of.functionName });

/** What is in a dead-letter or quarantine queue stays until somebody looks; the other alarms clear by themselves. */
export function alarms(scope: UniqueEventBatchAggregator, values: Values): void {
  const actions = values.alarmTopicArn ? { alarmActions: [values.alarmTopicArn], okActions: [values.alarmTopicArn] } : {};
  const alarm = (id: string, alarmDescription: string, { dimensions, ...watched }: Watched) =>
    new cloudwatch.CfnAlarm(scope, id, {
      alarmDescription,
      comparisonOperator: 'GreaterThanThreshold',
      threshold: 0,
      treatMissingData: 'notBreaching',
      ...watched,
      dimensions: Object.entries(dimensions).map(([name, value]) => ({ name, value })),
      ...actions,
    });

  const notEmpty = (queue: sqs.Queue): Watched => ({
    namespace: 'AWS/SQS',
    metricName: 'ApproximateNumberOfMessagesVisible',
    dimensions: ofQueue(queue),
    statistic: 'Maximum',
    period: 60,
    evaluationPeriods: 1,
  });
  alarm('InputDeadLetterNotEmpty', 'Messages came back too often and were set aside.', notEmpty(scope.inputDeadLetterQueue));
  alarm(
    'BatchDeadLetterNotEmpty',
    'Tickets came back too often; the sweep goes on sending others.',
    notEmpty(scope.batchDeadLetterQueue),
  );
  alarm(
    'QuarantineNotEmpty',
    'Messages that cannot be processed; the attribute reason says why.',
    notEmpty(scope.quarantineQueue),
  );

  const age = (queue: sqs.Queue): Watched => ({
    namespace: 'AWS/SQS',
    metricName: 'ApproximateAgeOfOldestMessage',
    dimensions: ofQueue(queue),
    statistic: 'Maximum',
    threshold: values.oldestMessageSeconds,
    period: 60,
    evaluationPeriods: 3,
  });
  alarm('InputQueueAge', 'Messages wait for the aggregator.', age(scope.inputQueue));
  alarm('BatchQueueAge', 'Tickets wait for the batch processor; batches are late.', age(scope.batchQueue));

  const invocations = (of: lambda.Function, metricName: string, evaluationPeriods: number): Watched => ({
    namespace: 'AWS/Lambda',
    metricName,
    dimensions: ofFunction(of),
    statistic: 'Sum',
    period: 300,
    evaluationPeriods,
  });
  for (const [id, name, of] of [
    ['Aggregator', 'aggregator', scope.aggregator],
    ['BatchProcessor', 'batch processor', scope.batchProcessor],
  ] as const) {
    alarm(`${id}Errors`, `The ${name} fails as a whole; its log says why.`, invocations(of, 'Errors', 1));
    const throttled = `The ${name} is wanted more often than the account allows.`;
    alarm(`${id}Throttles`, throttled, invocations(of, 'Throttles', 3));
  }

  const swept = { function: scope.batchProcessor.functionName, source: 'all' };
  alarm('BatchesOverdue', 'Batches stay unprocessed though the sweep sends tickets, or there is no sweep any more.', {
    namespace: NAMESPACE,
    metricName: 'BatchesOverdue',
    dimensions: swept,
    statistic: 'Minimum',
    period: 900,
    evaluationPeriods: 2,
    treatMissingData: 'breaching',
  });
  alarm('BatchesInError', 'The sink refused batches for good; they wait for an operator.', {
    namespace: NAMESPACE,
    metricName: 'BatchesInError',
    dimensions: swept,
    statistic: 'Maximum',
    period: 900,
    evaluationPeriods: 1,
    treatMissingData: 'ignore',
  });

  const stuck = (id: string, alarmDescription: string, queue: sqs.Queue) => {
    const sum = (name: string, metricName: string) => ({
      id: name,
      returnData: false,
      metricStat: {
        metric: { namespace: 'AWS/SQS', metricName, dimensions: [{ name: 'QueueName', value: queue.queueName }] },
        period: 300,
        stat: 'Sum',
      },
    });
    new cloudwatch.CfnAlarm(scope, id, {
      alarmDescription,
      metrics: [
        {
          id: 'stuck',
          expression: 'IF(FILL(received, 0) > 0 AND FILL(deleted, 0) == 0, 1, 0)',
          label: 'received and not deleted',
        },
        sum('received', 'NumberOfMessagesReceived'),
        sum('deleted', 'NumberOfMessagesDeleted'),
      ],
      comparisonOperator: 'GreaterThanThreshold',
      threshold: 0,
      evaluationPeriods: 3,
      treatMissingData: 'notBreaching',
      ...actions,
    });
  };
  const malformed = 'The aggregator receives and finishes nothing; its answers may be malformed.';
  stuck('InputQueueStuck', malformed, scope.inputQueue);
  const down = 'The batch processor receives and finishes nothing; the sink may be down, or answers malformed.';
  stuck('BatchQueueStuck', down, scope.batchQueue);
}

type Metric = (string | Record<string, string>)[];

/** A burst at a glance. */
export function dashboard(scope: UniqueEventBatchAggregator): void {
  const source = scope.inputQueue.queueArn;
  const own = (of: lambda.Function, from: string) => (name: string, options?: Record<string, string>): Metric =>
    [NAMESPACE, name, 'function', of.functionName, 'source', from, ...(options ? [options] : [])];
  const aggregator = own(scope.aggregator, source);
  const processor = own(scope.batchProcessor, source);
  const sweep = own(scope.batchProcessor, 'all');
  const queue = (name: string, of: sqs.Queue, label: string): Metric => ['AWS/SQS', name, 'QueueName', of.queueName, { label }];
  const invoked = (name: string, of: lambda.Function, options: Record<string, string>): Metric =>
    ['AWS/Lambda', name, 'FunctionName', of.functionName, options];
  const region = Aws.REGION;
  const widget = (x: number, y: number, width: number, title: string, metrics: Metric[], stat = 'Sum') => ({
    type: 'metric',
    x,
    y,
    width,
    height: 6,
    properties: { title, region, view: 'timeSeries', stacked: false, stat, period: 60, metrics },
  });
  const visible = 'ApproximateNumberOfMessagesVisible';
  const age = 'ApproximateAgeOfOldestMessage';
  const widgets = [
    widget(0, 0, 12, 'In, claimed, duplicates, delivered', [
      queue('NumberOfMessagesSent', scope.inputQueue, 'in'),
      aggregator('Received'),
      aggregator('Claimed'),
      aggregator('Duplicates'),
      processor('BatchItems', { label: 'delivered' }),
    ]),
    widget(12, 0, 12, 'Waiting', [
      queue(visible, scope.inputQueue, 'visible'),
      queue('ApproximateNumberOfMessagesNotVisible', scope.inputQueue, 'in flight'),
      queue(visible, scope.batchQueue, 'tickets'),
      queue('ApproximateNumberOfMessagesDelayed', scope.batchQueue, 'tickets to come'),
    ], 'Maximum'),
    widget(0, 6, 8, 'Batches', [
      aggregator('BatchesOpened'),
      aggregator('BatchesSealed'),
      processor('PartsDelivered'),
      processor('BatchesCompleted'),
      processor('Released'),
    ]),
    widget(8, 6, 8, 'Age of the oldest message, s', [
      queue(age, scope.inputQueue, 'input'),
      queue(age, scope.batchQueue, 'tickets'),
    ], 'Maximum'),
    widget(16, 6, 8, 'Batch age and delivery, ms', [processor('BatchAge'), processor('DeliverTime')], 'Maximum'),
    widget(0, 12, 8, 'Throttles and index lag', [
      aggregator('Throttles'),
      processor('IndexLagRetries'),
      invoked('Throttles', scope.aggregator, { label: 'aggregator throttles' }),
      invoked('Throttles', scope.batchProcessor, { label: 'batch processor throttles' }),
    ]),
    widget(8, 12, 8, 'Redelivered, conflicts, quarantined, failed', [
      aggregator('Redelivered'),
      aggregator('Conflicts'),
      aggregator('Quarantined'),
      aggregator('Failed'),
    ]),
    widget(16, 12, 8, 'Overdue, processing, in error', [
      sweep('BatchesOverdue'),
      sweep('BatchesProcessing'),
      sweep('BatchesInError'),
    ], 'Maximum'),
    widget(0, 18, 12, 'Functions', [
      invoked('ConcurrentExecutions', scope.aggregator, { label: 'aggregators', stat: 'Maximum' }),
      invoked('ConcurrentExecutions', scope.batchProcessor, { label: 'batch processors', stat: 'Maximum' }),
      invoked('Errors', scope.aggregator, { label: 'aggregator errors' }),
      invoked('Errors', scope.batchProcessor, { label: 'batch processor errors' }),
    ]),
    widget(12, 18, 12, 'Set aside', [
      queue(visible, scope.inputDeadLetterQueue, 'InputDeadLetterQueue'),
      queue(visible, scope.batchDeadLetterQueue, 'BatchDeadLetterQueue'),
      queue(visible, scope.quarantineQueue, 'QuarantineQueue'),
    ], 'Maximum'),
  ];
  new cloudwatch.CfnDashboard(scope, 'Dashboard', {
    dashboardBody: Stack.of(scope).toJsonString({ widgets }),
  });
}
