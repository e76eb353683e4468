import { Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import type * as iam from 'aws-cdk-lib/aws-iam';
import type * as kms from 'aws-cdk-lib/aws-kms';
import * as s3 from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';

import { grant } from './sink';

/** What the names of chunks in the stack's bucket begin with. */
const PREFIX = 'chunks';

/** A place of chunks: the value of `bodies` or `formerBodies`, and the stack's bucket if there is one. */
export interface ChunkPlace {
  readonly bodies: string;
  readonly bucket: s3.Bucket | undefined;
}

/**
 * Creates the stack's bucket for chunks. It has a generated name, as the tables have, and no versions: a chunk is written once, and
 * its former version would only keep the bodies for longer.
 */
export function chunkBucket(scope: Construct, key?: kms.IKey): s3.Bucket {
  return new s3.Bucket(scope, 'ChunkBucket', {
    // With a bucket key, S3 calls KMS once in a while, and not for every chunk.
    ...(key
      ? { encryption: s3.BucketEncryption.KMS, encryptionKey: key, bucketKeyEnabled: true }
      : { encryption: s3.BucketEncryption.S3_MANAGED }),
    blockPublicAccess: s3.BlockPublicAccess.BLOCK_ALL,
    enforceSSL: true,
    // A batch may wait for 10 days until it is set aside, and then for an operator.
    lifecycleRules: [{ prefix: `${PREFIX}/`, expiration: Duration.days(30) }],
    removalPolicy: RemovalPolicy.RETAIN,
  });
}

/** Returns the value of `BODIES`. */
export function bodiesVariable({ bodies, bucket }: ChunkPlace): string {
  return bodies === 's3' && bucket ? `s3://${bucket.bucketName}/${PREFIX}` : bodies;
}

/** Returns the aggregator's grant to store chunks. The wildcard stands for the chunk, <batchId>/<seq>. */
export function grantsToStore(scope: Construct, place: ChunkPlace): iam.PolicyStatement[] {
  const arns = arnsOf(scope, place);
  return arns ? [grant('StoreChunks', ['s3:PutObject'], `${arns.below}/*`)] : [];
}

/**
 * Returns the batch processor's grants to read chunks. `former` is empty, or `Former` for the place of batches that were opened
 * with another value of `bodies`. Without ListBucket, S3 returns 403 for a missing object instead of 404: a chunk that is missing
 * is lost, one that may not be read is not.
 */
export function grantsToRead(scope: Construct, former: '' | 'Former', place: ChunkPlace): iam.PolicyStatement[] {
  const arns = arnsOf(scope, place);
  if (!arns) return [];
  const below = arns.prefix ? { StringLike: { 's3:prefix': `${arns.prefix}/*` } } : undefined;
  return [
    grant(`Read${former}Chunks`, ['s3:GetObject'], `${arns.below}/*`),
    grant(`Miss${former}Chunks`, ['s3:ListBucket'], arns.bucket, below),
  ];
}

/** Returns the ARN of the bucket, the prefix, and the ARN of both; nothing if the place is not in S3. */
function arnsOf(scope: Construct, { bodies, bucket }: ChunkPlace): { bucket: string; prefix: string; below: string } | undefined {
  if (bodies === 's3' && bucket) return { bucket: bucket.bucketArn, prefix: PREFIX, below: bucket.arnForObjects(PREFIX) };
  if (!bodies.startsWith('s3://')) return undefined;
  const s3Arn = `arn:${Stack.of(scope).partition}:s3:::`;
  const place = bodies.slice('s3://'.length);
  const [name, ...prefix] = place.split('/');
  return { bucket: `${s3Arn}${name}`, prefix: prefix.join('/'), below: `${s3Arn}${place}` };
}
