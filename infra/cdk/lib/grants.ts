import { Aws, Token } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as kms from 'aws-cdk-lib/aws-kms';
import type * as s3 from 'aws-cdk-lib/aws-s3';
import type * as sqs from 'aws-cdk-lib/aws-sqs';

/** A bucket, and what the names of objects in it begin with. */
export interface Place {
  /** The bucket. */
  readonly bucket: s3.IBucket;
  /** What the names of objects begin with, without a slash at the end. By default, nothing. */
  readonly prefix?: string;
}

/** Returns a statement that allows some actions on a resource. */
export function grant(sid: string, actions: string[], resource: string, conditions?: iam.Conditions): iam.PolicyStatement {
  return new iam.PolicyStatement({ sid, actions, resources: [resource], ...(conditions && { conditions }) });
}

/** Returns the grant to use the key of a resource through its service; nothing if the resource has no key of its own. */
export function grantOfKey(sid: string, actions: string[], service: string, key?: kms.IKey): iam.PolicyStatement[] {
  if (!key) return [];
  if (isAlias(key)) throw new Error(`the key of a resource is the alias ${key.keyArn}, for which IAM grants nothing, expected the key itself`);
  const via = { StringEquals: { 'kms:ViaService': `${service}.${Aws.REGION}.${Aws.URL_SUFFIX}` } };
  return [grant(sid, actions, key.keyArn, via)];
}

/** Returns whether a key is an alias. The resources take one, but IAM takes its ARN for another resource than the key. */
export function isAlias(key?: kms.IKey): boolean {
  return key !== undefined && 'aliasName' in key;
}

/** Returns the URI of a place. Throws for a prefix with a character that IAM would read as a wildcard or a variable. */
export function uriOf({ bucket, prefix }: Place): string {
  if (prefix !== undefined && !Token.isUnresolved(prefix) && !/^[A-Za-z0-9!_.=-]+(\/[A-Za-z0-9!_.=-]+)*$/.test(prefix)) {
    throw new Error(`prefix is ${JSON.stringify(prefix)}, expected parts of letters, digits and !_.=- with slashes between them`);
  }
  return `s3://${bucket.bucketName}${prefix === undefined ? '' : `/${prefix}`}`;
}

/**
 * Returns the grants for objects of a place, and for reads the one that tells a missing object from a forbidden one. The wildcard stands
 * for the rest of an object's name, which begins with the id of a batch or, with BATCH_KEY, with the key.
 * Without ListBucket, S3 returns 403 for a missing object instead of 404; it is granted only below the prefix, because for this check
 * S3 takes the object's name as `s3:prefix`.
 */
export function grantsOfPlace(keep: string, miss: string, actions: string[], { bucket, prefix }: Place): iam.PolicyStatement[] {
  const below = prefix === undefined ? undefined : { StringLike: { 's3:prefix': `${prefix}/*` } };
  const keyActions = [...(actions.includes('s3:GetObject') ? ['kms:Decrypt'] : []), ...(actions.includes('s3:PutObject') ? ['kms:GenerateDataKey'] : [])];
  return [
    grant(keep, actions, bucket.arnForObjects(prefix === undefined ? '*' : `${prefix}/*`)),
    ...(actions.includes('s3:GetObject') ? [grant(miss, ['s3:ListBucket'], bucket.bucketArn, below)] : []),
    ...grantOfKey(`${keep}Key`, keyActions, 's3', bucket.encryptionKey),
  ];
}

/** Returns the grants to send to a queue. */
export function grantsToSend(sid: string, queue: sqs.IQueue): iam.PolicyStatement[] {
  return [
    grant(sid, ['sqs:SendMessage'], queue.queueArn),
    ...grantOfKey(`${sid}Key`, ['kms:Decrypt', 'kms:GenerateDataKey'], 'sqs', queue.encryptionMasterKey),
  ];
}

/** The characters of a name that only the deployment gives: what ARNs of buckets, queues, tables, keys and secrets have. */
const NAME_CHARACTERS = 110;

/** Returns about how many characters IAM counts of a resolved policy. */
export function charactersOf(policy: unknown): number {
  return JSON.stringify(withNames(policy)).length;
}

function withNames(value: any): any {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(withNames);
  if ('Fn::Join' in value) return value['Fn::Join'][1].map(withNames).join('');
  if (Object.keys(value).some((key) => key === 'Ref' || key.startsWith('Fn::'))) return '-'.repeat(NAME_CHARACTERS);
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, withNames(each)]));
}
