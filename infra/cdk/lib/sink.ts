import { Stack } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';

/** Returns a statement that allows some actions on a resource. */
export function grant(sid: string, actions: string[], resource: string, conditions?: iam.Conditions): iam.PolicyStatement {
  return new iam.PolicyStatement({ sid, actions, resources: [resource], ...(conditions && { conditions }) });
}

/** Returns the grant of the batch processor to send notices, if there are any. */
export function grantsOfCompletion(scope: Construct, completion: string): iam.PolicyStatement[] {
  if (completion.startsWith('arn:')) return [grant('PutNotices', ['events:PutEvents'], completion)];
  if (!completion) return [];
  return [grant('SendNotices', ['sqs:SendMessage'], arnOfQueue(scope, completion))];
}

/** Returns the grant of the aggregator to report dropped duplicates, if they are reported. */
export function grantsOfDuplicates(scope: Construct, url: string): iam.PolicyStatement[] {
  return url ? [grant('ReportDuplicates', ['sqs:SendMessage'], arnOfQueue(scope, url))] : [];
}

/** Returns the ARN of the queue https://sqs.<region>.amazonaws.com/<account>/<name>. */
function arnOfQueue(scope: Construct, url: string): string {
  const [, , host, account, name] = url.split('/');
  const region = host?.split('.')[1];
  return `arn:${Stack.of(scope).partition}:sqs:${region}:${account}:${name}`;
}

/** Returns the grants of the batch processor for its sink; none if the sink is not in AWS. */
export function grantsOfSink(scope: Construct, sink: string): iam.PolicyStatement[] {
  if (sink.startsWith('s3://')) return grantsOfPlace(scope, 'DeliverToS3', 'MissInS3', sink);
  const service = sink.split(':')[2];
  if (service === 'states') return [grantOfStateMachine(sink)];
  if (service === 'lambda') return [grant('DeliverToFunction', ['lambda:InvokeFunction'], sink)];
  return [];
}

/** Returns its grants for the store of reject lists. */
export function grantsOfRejects(scope: Construct, rejects: string): iam.PolicyStatement[] {
  return rejects.startsWith('s3://') ? grantsOfPlace(scope, 'KeepRejectsInS3', 'MissRejectsInS3', rejects) : [];
}

/** Returns its grants for the store of payloads. */
export function grantsOfPayloads(scope: Construct, payloads: string): iam.PolicyStatement[] {
  return payloads.startsWith('s3://') ? grantsOfPlace(scope, 'KeepPayloadsInS3', 'MissPayloadsInS3', payloads) : [];
}

/** Returns its grant to read the list of columns, if that is an object in S3. */
export function grantsOfColumns(scope: Construct, columns: string): iam.PolicyStatement[] {
  if (!columns.startsWith('s3://')) return [];
  return [grant('ReadColumns', ['s3:GetObject'], `arn:${Stack.of(scope).partition}:s3:::${columns.slice('s3://'.length)}`)];
}

/** Returns the grant to read the secret of this ARN, for the extension, which uses the function's role. */
export function grantsOfSecret(arn: string): iam.PolicyStatement[] {
  const service = arn.split(':')[2];
  if (service === 'secretsmanager') return [grant('ReadSecret', ['secretsmanager:GetSecretValue'], arn)];
  if (service === 'ssm') return [grant('ReadParameter', ['ssm:GetParameter'], arn)];
  return [];
}

/** For a version or an alias, the resource is the state machine, and a condition key has the version or alias. */
function grantOfStateMachine(arn: string): iam.PolicyStatement {
  const fields = arn.split(':');
  const qualifier = fields[7];
  const only = qualifier ? { 'ForAnyValue:StringEquals': { 'states:StateMachineQualifier': qualifier } } : undefined;
  return grant('DeliverToStateMachine', ['states:StartExecution'], fields.slice(0, 7).join(':'), only);
}

/**
 * Grants writing and comparing objects below a prefix. GetObject is for comparing an existing object with the part. The name of an
 * object is <prefix>/<batchId>/<part>.<ext>, or with BATCH_KEY <prefix>/<key>/<batchId>/<part>.<ext>; the wildcard stands for
 * everything after the prefix.
 * Without ListBucket, S3 returns 403 for a missing object instead of 404; it is granted only below the prefix, because for this
 * check S3 takes the object's name as `s3:prefix`.
 */
function grantsOfPlace(scope: Construct, keep: string, miss: string, uri: string): iam.PolicyStatement[] {
  const s3 = `arn:${Stack.of(scope).partition}:s3:::`;
  const place = uri.slice('s3://'.length);
  const [bucket, ...prefix] = place.split('/');
  const below = prefix.length > 0 ? { StringLike: { 's3:prefix': `${prefix.join('/')}/*` } } : undefined;
  return [grant(keep, ['s3:GetObject', 's3:PutObject'], `${s3}${place}/*`), grant(miss, ['s3:ListBucket'], `${s3}${bucket}`, below)];
}
