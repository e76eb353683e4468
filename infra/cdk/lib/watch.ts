import { Aws, Stack } from 'aws-cdk-lib';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import type { Values } from './parameters';

/** Of the functions' own metrics: `shared/src/metrics.rs`. */
const NAMESPACE = 'UniqueEventBatchAggregator';

/** The queues and functions that alarms and the dashboard look at. */
export interface WatchedService extends Construct {
  readonly inputQueue: sqs.Queue;
  readonly batchQueue: sqs.Queue;
  readonly inputDeadLetterQueue: sqs.Queue;
  readonly batchDeadLetterQueue: sqs.Queue;
  readonly quarantineQueue: sqs.Queue;
  readonly sweepDeadLetterQueue: sqs.Queue;
  readonly aggregator: lambda.Function;
  readonly batchProcessor: lambda.Function;
}

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
  /** Whether it is told when there is no data any more. */
  readonly tellsWithoutData?: boolean;
}

/** A metric of an expression, by the name it has there. */
type Sum = (id: string, period: number) => cloudwatch.CfnAlarm.MetricDataQueryProperty;

const sum = (namespace: string, metricName: string, dimensions: Record<string, string>): Sum => (id, period) => ({
  id,
  returnData: false,
  metricStat: {
    metric: { namespace, metricName, dimensions: Object.entries(dimensions).map(([name, value]) => ({ name, value })) },
    period,
    stat: 'Sum',
  },
});

/** An expression, and what it is about. */
interface Calculated {
  readonly name: string;
  readonly expression: string;
  readonly label: string;
  readonly period: number;
  readonly evaluationPeriods: number;
  readonly of: Record<string, Sum>;
}

const ofQueue = (queue: sqs.Queue) => ({ QueueName: queue.queueName });
const ofFunction = (of: lambda.Function) => ({ FunctionName: of.functionName });

/** What is in a dead-letter or quarantine queue stays until somebody looks; the other alarms clear by themselves. */
export function alarms(scope: WatchedService, values: Values): void {
  const actions = values.alarmTopicArn ? { alarmActions: [values.alarmTopicArn], okActions: [values.alarmTopicArn] } : {};
  const alarm = (id: string, alarmDescription: string, { dimensions, tellsWithoutData, ...watched }: Watched) =>
    new cloudwatch.CfnAlarm(scope, id, {
      alarmDescription,
      comparisonOperator: 'GreaterThanThreshold',
      threshold: 0,
      treatMissingData: 'notBreaching',
      ...watched,
      dimensions: Object.entries(dimensions).map(([name, value]) => ({ name, value })),
      ...actions,
      ...(tellsWithoutData && values.alarmTopicArn && { insufficientDataActions: [values.alarmTopicArn] }),
    });
  /** On an expression that is 1 where something is wrong. */
  const calculated = (id: string, alarmDescription: string, { name, expression, label, period, evaluationPeriods, of }: Calculated) =>
    new cloudwatch.CfnAlarm(scope, id, {
      alarmDescription,
      metrics: [{ id: name, expression, label }, ...Object.entries(of).map(([each, make]) => make(each, period))],
      comparisonOperator: 'GreaterThanThreshold',
      threshold: 0,
      evaluationPeriods,
      treatMissingData: 'notBreaching',
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

  alarm(
    'SweepDeadLetterNotEmpty',
    'Sweeps could not be called, or failed; the message says which and why.',
    notEmpty(scope.sweepDeadLetterQueue),
  );

  const age = (queue: sqs.Queue, threshold: number): Watched => ({
    namespace: 'AWS/SQS',
    metricName: 'ApproximateAgeOfOldestMessage',
    dimensions: ofQueue(queue),
    statistic: 'Maximum',
    threshold,
    period: 60,
    evaluationPeriods: 3,
  });
  alarm('InputQueueAge', 'Messages wait for the aggregator.', age(scope.inputQueue, values.oldestMessageSeconds));
  // Above the visibility timeout, and the delay that a ticket may have had: one that is being worked on is not late.
  const late = 6 * values.batchProcessorTimeout + 1_800;
  alarm('BatchQueueAge', 'Tickets wait for the batch processor; batches are late.', age(scope.batchQueue, late));

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
  const unprocessed = 'Batches stay unprocessed though the sweep sends tickets; without data, there is no sweep any more.';
  alarm('BatchesOverdue', unprocessed, {
    namespace: NAMESPACE,
    metricName: 'BatchesOverdue',
    dimensions: swept,
    // A batch that was sent a ticket is not overdue for ten minutes; in half an hour every schedule finds it again.
    statistic: 'Maximum',
    period: 1800,
    evaluationPeriods: 2,
    // A new alarm is without data and tells nobody; one that loses its data does.
    treatMissingData: 'missing',
    tellsWithoutData: true,
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

  const ofInput = (metricName: string) => sum('AWS/SQS', metricName, ofQueue(scope.inputQueue));
  const ofBatch = (metricName: string) => sum('AWS/SQS', metricName, ofQueue(scope.batchQueue));
  const ofAggregator = (metricName: string) =>
    sum(NAMESPACE, metricName, { function: scope.aggregator.functionName, source: scope.inputQueue.queueArn });
  // Duplicates that wait are received and not deleted, as they should.
  const requeues = values.onDuplicate === 'requeue';
  const waiting = { duplicates: ofAggregator('Duplicates'), conflicts: ofAggregator('Conflicts') };
  const stuck = {
    name: 'stuck',
    expression: 'IF(FILL(received, 0) > 0 AND FILL(deleted, 0) == 0, 1, 0)',
    label: 'received and not deleted',
    period: 300,
    evaluationPeriods: 3,
  };
  calculated('InputQueueStuck', 'The aggregator receives and finishes nothing; its answers may be malformed.', {
    ...stuck,
    // A period with any duplicates says nothing.
    ...(requeues && {
      expression: 'IF(FILL(received, 0) > 0 AND FILL(deleted, 0) == 0 AND FILL(duplicates, 0) + FILL(conflicts, 0) == 0, 1, 0)',
    }),
    of: { received: ofInput('NumberOfMessagesReceived'), deleted: ofInput('NumberOfMessagesDeleted'), ...(requeues && waiting) },
  });
  calculated('BatchQueueStuck', 'The batch processor receives and finishes nothing; the sink may be down, or answers malformed.', {
    ...stuck,
    of: { received: ofBatch('NumberOfMessagesReceived'), deleted: ofBatch('NumberOfMessagesDeleted') },
  });
  // SQS leaves messages that were received three times out of the age. A period is longer than any visibility timeout: what
  // keeps failing fails in each.
  const again = 'Messages fail again and again, three receives and more; the age of the queue does not tell of those.';
  calculated('InputQueueRetries', again, {
    name: 'retries',
    expression: requeues ? 'IF(FILL(failed, 0) > FILL(duplicates, 0) + FILL(conflicts, 0), 1, 0)' : 'IF(FILL(failed, 0) > 0, 1, 0)',
    label: 'failed',
    period: 1_800,
    evaluationPeriods: 3,
    of: { failed: ofAggregator('Failed'), ...(requeues && waiting) },
  });
  // A ticket that is given back comes again after 5 minutes at most, so three times in an hour.
  const tickets = 'Tickets are received three times and more for each that is done; the age of the queue does not tell of those.';
  calculated('BatchQueueRetries', tickets, {
    name: 'retries',
    expression: 'IF(FILL(received, 0) >= 3 AND FILL(received, 0) >= 3 * FILL(deleted, 0), 1, 0)',
    label: 'three receives a ticket',
    period: 3_600,
    evaluationPeriods: 1,
    of: { received: ofBatch('NumberOfMessagesReceived'), deleted: ofBatch('NumberOfMessagesDeleted') },
  });
}

type Metric = (string | Record<string, string>)[];

/** A burst at a glance. */
export function dashboard(scope: WatchedService): void {
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
      queue(visible, scope.sweepDeadLetterQueue, 'SweepDeadLetterQueue'),
      queue(visible, scope.quarantineQueue, 'QuarantineQueue'),
    ], 'Maximum'),
  ];
  new cloudwatch.CfnDashboard(scope, 'Dashboard', {
    dashboardBody: Stack.of(scope).toJsonString({ widgets }),
  });
}
