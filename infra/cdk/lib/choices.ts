import type * as events from 'aws-cdk-lib/aws-events';
import type * as iam from 'aws-cdk-lib/aws-iam';
import type * as s3 from 'aws-cdk-lib/aws-s3';
import type * as sqs from 'aws-cdk-lib/aws-sqs';

import { grant, grantsOfPlace, grantsToSend, type Place, uriOf } from './grants';
import type { S3SinkOptions } from './sink';

/** What happens to a duplicate. */
export enum OnDuplicate {
  /** It is acknowledged. */
  DROP = 'drop',
  /** It waits in the input queue until the first is delivered. */
  REQUEUE = 'requeue',
}

/** Where the bodies of new batches go. */
export class Bodies {
  /** In lock items. */
  public static items(): Bodies {
    return new Bodies('items');
  }

  /** In the log, in the batch table: all environments fill the same batches. A preview. */
  public static logTable(): Bodies {
    return new Bodies('log:table');
  }

  /** In the log, in the bucket of the service. A preview. */
  public static logS3(): Bodies {
    return new Bodies('log:s3');
  }

  /** In the log, in another bucket, whose lifecycle must keep objects for 40 days. A preview. */
  public static logBucket(bucket: s3.IBucket, options: S3SinkOptions = {}): Bodies {
    return new Bodies('log:s3', { bucket, prefix: options.prefix });
  }

  private constructor(
    private readonly kind: 'items' | 'log:table' | 'log:s3',
    /** The bucket, if it is not the service's. */
    private readonly place?: Place,
  ) {}

  /**
   * Returns the value of BODIES. `own` is that of the bucket of the service.
   * @internal
   */
  public _variable(own: string): string {
    const uri = this.place ? uriOf(this.place) : own;
    return this.kind === 'log:s3' ? `log:${uri}` : this.kind;
  }

  /**
   * Returns the grants of the aggregator for a bucket that is not the service's.
   * @internal
   */
  public _grantsOfAggregator(): iam.PolicyStatement[] {
    return this.place ? grantsOfPlace('StoreLoadsInPlace', 'MissLoadsInPlace', ['s3:PutObject'], this.place) : [];
  }

  /**
   * Returns the grants of the batch processor for a bucket that is not the service's. It stores the runs of the log there.
   * @internal
   */
  public _grantsOfBatchProcessor(): iam.PolicyStatement[] {
    if (!this.place) return [];
    return [
      ...grantsOfPlace('ReadLoadsInPlace', 'MissLoadsInPlace', ['s3:GetObject'], this.place),
      ...grantsOfPlace('StoreRunsInPlace', 'MissRunsInPlace', ['s3:PutObject'], this.place),
    ];
  }
}

/** Where a notice goes when a batch is complete or goes into error. */
export class Completion {
  /** To a standard queue. */
  public static queue(queue: sqs.IQueue): Completion {
    return new Completion(queue.queueUrl, () => grantsToSend('SendNotices', queue));
  }

  /** To an event bus. */
  public static eventBus(bus: events.IEventBus): Completion {
    return new Completion(bus.eventBusArn, () => [grant('PutNotices', ['events:PutEvents'], bus.eventBusArn)]);
  }

  private constructor(
    /** The value of COMPLETION. */
    public readonly target: string,
    private readonly grants: () => iam.PolicyStatement[],
  ) {}

  /**
   * Returns the grants of the batch processor.
   * @internal
   */
  public _grants(): iam.PolicyStatement[] {
    return this.grants();
  }
}

/** Units a second of `LockTableCapacity.provisioned`. */
export interface ProvisionedUnits {
  /** The least. */
  readonly min: number;
  /** The most. */
  readonly max: number;
}

/** The capacity of the lock table and its index. */
export class LockTableCapacity {
  /** On demand, from what AWS gives a new table: 4,000 writes a second. */
  public static onDemand(): LockTableCapacity {
    return new LockTableCapacity({});
  }

  /** On demand, with at most so many write units a second. */
  public static atMost(writes: number): LockTableCapacity {
    return new LockTableCapacity({ most: whole('writes', writes, 1) });
  }

  /** On demand, and ready for so many write units a second at once: paid once, and never lowered. AWS warms no table for less than 4,000. */
  public static warm(writes: number): LockTableCapacity {
    return new LockTableCapacity({ warm: whole('writes', writes, 4_000) });
  }

  /** Provisioned, and scaled between two figures of read and of write units a second. */
  public static provisioned(units: ProvisionedUnits): LockTableCapacity {
    whole('min', units.min, 1);
    return new LockTableCapacity({ provisioned: { min: units.min, max: whole('max', units.max, units.min) } });
  }

  private constructor(private readonly chosen: { most?: number; warm?: number; provisioned?: ProvisionedUnits }) {}

  /** @internal */
  public get _most(): number | undefined {
    return this.chosen.most;
  }

  /** @internal */
  public get _warm(): number | undefined {
    return this.chosen.warm;
  }

  /** @internal */
  public get _provisioned(): ProvisionedUnits | undefined {
    return this.chosen.provisioned;
  }
}

function whole(name: string, value: number, min: number): number {
  if (!Number.isSafeInteger(value) || value < min) throw new Error(`lockTableCapacity: ${name} is ${value}, expected a whole number from ${min} on`);
  return value;
}
