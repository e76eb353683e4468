import { Stack } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';

/** One statement, by name: what may be done to what. */
export function grant(sid: string, actions: string[], resource: string, conditions?: iam.Conditions): iam.PolicyStatement {
  return new iam.PolicyStatement({ sid, actions, resources: [resource], ...(conditions && { conditions }) });
}

/** What the batch processor may do where `sink` points, and nothing for sinks that need nothing of AWS. */
export function grantsOfSink(scope: Construct, sink: string): iam.PolicyStatement[] {
  if (sink.startsWith('s3://')) return grantsOfPlace(scope, 'DeliverToS3', 'MissInS3', sink);
  const service = sink.split(':')[2];
  if (service === 'states') return [grantOfStateMachine(sink)];
  if (service === 'lambda') return [grant('DeliverToFunction', ['lambda:InvokeFunction'], sink)];
  return [];
}

/** What it may do where `rejects` points. */
export function grantsOfRejects(scope: Construct, rejects: string): iam.PolicyStatement[] {
  return rejects.startsWith('s3://') ? grantsOfPlace(scope, 'KeepRejectsInS3', 'MissRejectsInS3', rejects) : [];
}

/** What it may do where `payloads` points. */
export function grantsOfPayloads(scope: Construct, payloads: string): iam.PolicyStatement[] {
  return payloads.startsWith('s3://') ? grantsOfPlace(scope, 'KeepPayloadsInS3', 'MissPayloadsInS3', payloads) : [];
}

/** What it may do with the list of columns: read that object, and nothing else. */
export function grantsOfColumns(scope: Construct, columns: string): iam.PolicyStatement[] {
  if (!columns.startsWith('s3://')) return [];
  return [grant('ReadColumns', ['s3:GetObject'], `arn:${Stack.of(scope).partition}:s3:::${columns.slice('s3://'.length)}`)];
}

/** What the extension, which has the function's role, may do with the secret of this ARN. */
export function grantsOfSecret(arn: string): iam.PolicyStatement[] {
  const service = arn.split(':')[2];
  if (service === 'secretsmanager') return [grant('ReadSecret', ['secretsmanager:GetSecretValue'], arn)];
  if (service === 'ssm') return [grant('ReadParameter', ['ssm:GetParameter'], arn)];
  return [];
}

/** Of a version or an alias, IAM sees the state machine and, in a key of its own, what stands behind it. */
function grantOfStateMachine(arn: string): iam.PolicyStatement {
  const fields = arn.split(':');
  const qualifier = fields[7];
  const only = qualifier ? { 'ForAnyValue:StringEquals': { 'states:StateMachineQualifier': qualifier } } : undefined;
  return grant('DeliverToStateMachine', ['states:StartExecution'], fields.slice(0, 7).join(':'), only);
}

/**
 * The wildcard is the batch: <prefix>/<batchId>/<part>.<ext>, and with BATCH_KEY <prefix>/<key>/<batchId>/<part>.<ext>.
 * GetObject tells whether what is there is this part. Who may not list is told of a missing object that it is forbidden (403),
 * not that it is missing (404): below the prefix alone, where S3 takes the object's name for `s3:prefix`.
 */
function grantsOfPlace(scope: Construct, keep: string, miss: string, uri: string): iam.PolicyStatement[] {
  const s3 = `arn:${Stack.of(scope).partition}:s3:::`;
  const place = uri.slice('s3://'.length);
  const [bucket, ...prefix] = place.split('/');
  const below = prefix.length > 0 ? { StringLike: { 's3:prefix': `${prefix.join('/')}/*` } } : undefined;
  return [grant(keep, ['s3:GetObject', 's3:PutObject'], `${s3}${place}/*`), grant(miss, ['s3:ListBucket'], `${s3}${bucket}`, below)];
}
