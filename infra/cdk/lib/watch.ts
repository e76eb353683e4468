import { Aws, type Duration, Stack } from 'aws-cdk-lib';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type * as sns from 'aws-cdk-lib/aws-sns';
import type * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import type { Answers } from './answers';

/** The namespace of the functions' own metrics, as in `shared/src/metrics.rs`. */
const NAMESPACE = 'UniqueEventBatchAggregator';

/** The queues and functions that alarms and the dashboard show. */
interface Watched extends Construct {
  readonly inputQueue: sqs.Queue;
  readonly batchQueue: sqs.Queue;
  readonly inputDeadLetterQueue: sqs.Queue;
  readonly batchDeadLetterQueue: sqs.Queue;
  readonly quarantineQueue: sqs.Queue;
  readonly sweepDeadLetterQueue: sqs.Queue;
  readonly aggregator: lambda.Function;
  readonly batchProcessor: lambda.Function;
}

/** What the alarms depend on. */
interface Choices {
  readonly alarmTopic?: sns.ITopic;
  readonly okTopic?: sns.ITopic;
  readonly answers?: Answers;
  readonly requeues: boolean;
  readonly batchProcessorTimeout: Duration;
}

/** The metric of an alarm, and the condition. */
interface Condition {
  readonly namespace: string;
  readonly metricName: string;
  readonly dimensions: Record<string, string>;
  readonly statistic: string;
  readonly threshold?: number;
  readonly period: number;
  readonly evaluationPeriods: number;
  readonly treatMissingData?: string;
  /** Whether the topic is notified when data stops. */
  readonly tellsWithoutData?: boolean;
}

/** Makes a metric for an expression, under a name that the expression uses. */
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

/**
 * Makes the alarms. The alarms of dead-letter queues and of the quarantine last until an operator empties the queue; the others
 * clear by themselves. Sweeps that are set aside have no alarm, which would last until an operator empties a queue of no further use:
 * `BatchesOverdue` notifies if sweeps stop.
 */
export function alarms(scope: Watched, { alarmTopic, answers, okTopic, requeues, batchProcessorTimeout }: Choices): void {
  // Otherwise CloudWatch cannot send to a topic that is encrypted with a key of its own, and says so nowhere but in an alarm's history.
  // Source: <https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html> (2026-11).
  for (const topic of [alarmTopic, okTopic]) {
    topic?.masterKey?.grant(new iam.ServicePrincipal('cloudwatch.amazonaws.com'), 'kms:Decrypt', 'kms:GenerateDataKey*');
  }
  const actions = {
    ...(alarmTopic && { alarmActions: [alarmTopic.topicArn] }),
    ...(okTopic && { okActions: [okTopic.topicArn] }),
  };
  const alarm = (id: string, alarmDescription: string, { dimensions, tellsWithoutData, ...watched }: Condition) =>
    new cloudwatch.CfnAlarm(scope, id, {
      alarmDescription,
      comparisonOperator: 'GreaterThanThreshold',
      threshold: 0,
      treatMissingData: 'notBreaching',
      ...watched,
      dimensions: Object.entries(dimensions).map(([name, value]) => ({ name, value })),
      ...actions,
      ...(tellsWithoutData && alarmTopic && { insufficientDataActions: [alarmTopic.topicArn] }),
    });
  /** Makes an alarm on an expression that is 1 when something is wrong. */
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

  const notEmpty = (queue: sqs.Queue): Condition => ({
    namespace: 'AWS/SQS',
    metricName: 'ApproximateNumberOfMessagesVisible',
    dimensions: ofQueue(queue),
    statistic: 'Maximum',
    period: 60,
    evaluationPeriods: 1,
  });
  alarm('InputDeadLetterNotEmpty', 'Messages reached the maximum number of receives and are in the dead-letter queue.', notEmpty(scope.inputDeadLetterQueue));
  alarm(
    'BatchDeadLetterNotEmpty',
    'Tickets reached the maximum number of receives; the sweep sends new tickets for their batches.',
    notEmpty(scope.batchDeadLetterQueue),
  );
  alarm(
    'QuarantineNotEmpty',
    'The quarantine has messages that cannot be processed; their attribute reason says why.',
    notEmpty(scope.quarantineQueue),
  );

  const age = (queue: sqs.Queue, threshold: number): Condition => ({
    namespace: 'AWS/SQS',
    metricName: 'ApproximateAgeOfOldestMessage',
    dimensions: ofQueue(queue),
    statistic: 'Maximum',
    threshold,
    period: 60,
    evaluationPeriods: 3,
  });
  alarm('InputQueueAge', 'The oldest message of the input queue waits too long for the aggregator.', age(scope.inputQueue, 1_800));
  // Above the visibility timeout and the delay of a ticket, because a ticket that is delayed or being processed is not late.
  const late = 6 * batchProcessorTimeout.toSeconds() + 1_800;
  alarm('BatchQueueAge', 'The oldest ticket waits too long for the batch processor; batches are late.', age(scope.batchQueue, late));

  const invocations = (of: lambda.Function, metricName: string, evaluationPeriods: number): Condition => ({
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
    alarm(`${id}Errors`, `Whole invocations of the ${name} fail; its log says why.`, invocations(of, 'Errors', 1));
    const throttled = `Lambda throttles the ${name}; the account's concurrency is too low.`;
    alarm(`${id}Throttles`, throttled, invocations(of, 'Throttles', 3));
  }

  const swept = { function: scope.batchProcessor.functionName, source: 'all' };
  const unprocessed = 'Batches stay unprocessed although the sweep sends tickets; without data, the sweep itself has stopped.';
  alarm('BatchesOverdue', unprocessed, {
    namespace: NAMESPACE,
    metricName: 'BatchesOverdue',
    dimensions: swept,
    // After the sweep has sent a batch a ticket, the batch is not overdue for ten minutes. Within half an hour, every
    // sweep finds it again.
    statistic: 'Maximum',
    period: 1800,
    evaluationPeriods: 2,
    // A new alarm has no data and sends nothing; an alarm whose data stops does.
    treatMissingData: 'missing',
    tellsWithoutData: true,
  });
  alarm('BatchesInError', 'The sink refused batches, which are not retried; they wait for an operator.', {
    namespace: NAMESPACE,
    metricName: 'BatchesInError',
    dimensions: swept,
    statistic: 'Maximum',
    period: 900,
    evaluationPeriods: 1,
    treatMissingData: 'ignore',
  });

  alarm('RecordsRejected', 'The sink rejected records of delivered parts; they are only in the reject list.', {
    namespace: NAMESPACE,
    metricName: 'Rejected',
    dimensions: { function: scope.batchProcessor.functionName, source: scope.inputQueue.queueArn },
    statistic: 'Sum',
    period: 900,
    evaluationPeriods: 1,
  });

  if (answers) {
    const ofSweep = (metricName: string) => sum(NAMESPACE, metricName, swept);
    const unanswered = 'Nothing was answered about delivered events in time, or an answer cannot be used; the log of the batch processor says why.';
    calculated('AnswersMissing', unanswered, {
      name: 'unanswered',
      // One alarm for both, because an answer that cannot be used leaves its events without one.
      expression: 'IF(FILL(silent, 0) + FILL(problems, 0) > 0, 1, 0)',
      label: 'silent events and problems of answers',
      period: 900,
      evaluationPeriods: 1,
      of: { silent: ofSweep('EventsSilent'), problems: ofSweep('AnswerProblems') },
    });
  }

  alarm('DedupIndexBehind', 'The index of the log has too many runs, because they are not merged; batches are decided ever more slowly.', {
    namespace: NAMESPACE,
    metricName: 'IndexRuns',
    dimensions: { function: scope.batchProcessor.functionName, source: scope.inputQueue.queueArn },
    // Of 50,000, from which on no batch commits any more.
    statistic: 'Maximum',
    threshold: 2_000,
    period: 900,
    evaluationPeriods: 2,
  });

  alarm('NoticesWaiting', 'Notices of complete batches or of errors cannot be sent; they are lost when the records expire after 14 days.', {
    namespace: NAMESPACE,
    metricName: 'NoticesWaiting',
    dimensions: swept,
    // After the sweep has sent a ticket for a notice, the notice is not due for ten minutes. Within half an hour, every
    // sweep finds it again. One sighting means nothing: a process may have died before it sent its notice.
    statistic: 'Maximum',
    period: 1800,
    evaluationPeriods: 2,
  });

  const ofInput = (metricName: string) => sum('AWS/SQS', metricName, ofQueue(scope.inputQueue));
  const ofBatch = (metricName: string) => sum('AWS/SQS', metricName, ofQueue(scope.batchQueue));
  const ofAggregator = (metricName: string) =>
    sum(NAMESPACE, metricName, { function: scope.aggregator.functionName, source: scope.inputQueue.queueArn });
  // Waiting duplicates are rightly received and not deleted.
  const waiting = { duplicates: ofAggregator('Duplicates'), conflicts: ofAggregator('Conflicts') };
  const stuck = {
    name: 'stuck',
    expression: 'IF(FILL(received, 0) > 0 AND FILL(deleted, 0) == 0, 1, 0)',
    label: 'received and not deleted',
    period: 300,
    evaluationPeriods: 3,
  };
  calculated('InputQueueStuck', 'The aggregator receives messages but none is deleted; its responses may be malformed.', {
    ...stuck,
    // A period with duplicates does not count.
    ...(requeues && {
      expression: 'IF(FILL(received, 0) > 0 AND FILL(deleted, 0) == 0 AND FILL(duplicates, 0) + FILL(conflicts, 0) == 0, 1, 0)',
    }),
    of: { received: ofInput('NumberOfMessagesReceived'), deleted: ofInput('NumberOfMessagesDeleted'), ...(requeues && waiting) },
  });
  calculated('BatchQueueStuck', 'The batch processor receives tickets but none is deleted; the sink may be down, or its responses malformed.', {
    ...stuck,
    of: { received: ofBatch('NumberOfMessagesReceived'), deleted: ofBatch('NumberOfMessagesDeleted') },
  });
  // SQS leaves messages out of the age after three receives. A period is longer than any visibility timeout, so a message that
  // keeps failing fails in each period.
  const again = 'Messages fail repeatedly; after three receives, a message is not in the age of the queue.';
  calculated('InputQueueRetries', again, {
    name: 'retries',
    expression: requeues ? 'IF(FILL(failed, 0) > FILL(duplicates, 0) + FILL(conflicts, 0), 1, 0)' : 'IF(FILL(failed, 0) > 0, 1, 0)',
    label: 'failed',
    period: 1_800,
    evaluationPeriods: 3,
    of: { failed: ofAggregator('Failed'), ...(requeues && waiting) },
  });
  // A ticket that is given back is received again within 5 minutes, so three times in an hour.
  const tickets = 'Tickets are received three or more times before they are done; after three receives, a ticket is not in the age of the queue.';
  calculated('BatchQueueRetries', tickets, {
    name: 'retries',
    // Batches that wait for their turn delete their tickets, and would hide one that is given back: then nothing is delivered.
    expression:
      'IF(FILL(received, 0) >= FILL(deleted, 0) + 3 AND (FILL(received, 0) >= 3 * FILL(deleted, 0) OR FILL(delivered, 0) == 0), 1, 0)',
    label: 'three receives a ticket',
    period: 3_600,
    // In one period, tickets may be on their way to the first delivery.
    evaluationPeriods: 2,
    of: {
      received: ofBatch('NumberOfMessagesReceived'),
      deleted: ofBatch('NumberOfMessagesDeleted'),
      delivered: sum(NAMESPACE, 'PartsDelivered', { function: scope.batchProcessor.functionName, source: scope.inputQueue.queueArn }),
    },
  });
}

type Metric = (string | Record<string, string>)[];

/** Makes a dashboard that shows the progress of a burst. */
export function dashboard(scope: Watched): void {
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
      processor('Duplicates', { label: 'duplicates in the log' }),
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
    widget(16, 6, 8, 'Batch age and delivery, ms', [
      processor('BatchAge'),
      processor('DeliverTime'),
      processor('SendToDeliverTime'),
    ], 'Maximum'),
    widget(0, 12, 8, 'Throttles and index lag', [
      aggregator('Throttles'),
      processor('IndexLagRetries'),
      invoked('Throttles', scope.aggregator, { label: 'aggregator throttles' }),
      invoked('Throttles', scope.batchProcessor, { label: 'batch processor throttles' }),
    ]),
    widget(8, 12, 8, 'Redelivered, conflicts, quarantined, failed', [
      aggregator('Redelivered'),
      aggregator('Conflicts'),
      processor('Conflicts', { label: 'conflicts in the log' }),
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
    widget(0, 24, 8, 'Why batches start', [
      aggregator('FlushedFull', { label: 'full' }),
      aggregator('FlushedBytes', { label: 'full by bytes' }),
      aggregator('FlushedDrained', { label: 'queue drained' }),
      aggregator('FlushedUrgent', { label: 'urgent event' }),
      aggregator('FlushedIdle', { label: 'no further events' }),
      processor('FlushedWindow', { label: 'window' }),
    ]),
    widget(8, 24, 8, 'Fill of delivered batches, %', [processor('FillRatio')], 'Average'),
    widget(16, 24, 8, 'Oldest overdue, oldest in error, ms', [
      sweep('OldestOverdueAge'),
      sweep('OldestErrorAge'),
    ], 'Maximum'),
  ];
  new cloudwatch.CfnDashboard(scope, 'Dashboard', {
    dashboardBody: Stack.of(scope).toJsonString({ widgets }),
  });
}
