/**
 * What can be chosen: the same list as the parameters of the SAM template, whose descriptions explain each.
 * infra/checks compares names, defaults and bounds.
 */
export interface NumberParameter {
  readonly default: number;
  readonly min?: number;
  readonly max?: number;
  readonly allowed?: readonly number[];
}

export interface TextParameter {
  readonly default: string;
  readonly allowed?: readonly string[];
  readonly pattern?: RegExp;
}

export const parameters = {
  architecture: { default: "arm64", allowed: ["arm64", "x86_64"] },
  memorySize: { default: 1769, min: 512, max: 10240 },
  aggregatorTimeout: { default: 60, allowed: [15, 30, 60, 120, 180] },
  batchProcessorTimeout: { default: 300, allowed: [60, 120, 300, 600, 900] },
  inputBatchSize: { default: 10000, min: 1, max: 10000 },
  inputBatchingWindow: { default: 1, allowed: [1, 2, 5, 10, 20, 60, 300] },
  inputScaling: { default: "maximum-concurrency", allowed: ["maximum-concurrency", "provisioned"] },
  aggregatorConcurrency: { default: 50, min: 2, max: 1000 },
  pollersMin: { default: 2, min: 2, max: 200 },
  pollersMax: { default: 200, min: 200, max: 10000 },
  batchProcessorConcurrency: { default: 2, min: 2, max: 1000 },
  sweepMinutes: { default: 5, allowed: [2, 5, 10, 15] },
  tracing: { default: "PassThrough", allowed: ["PassThrough", "Active"] },
  maxSecondaryBatchingWindow: { default: 300, min: 1, max: 700 },
  maxBatchSize: { default: 50000, min: 1, max: 500000 },
  maxBatchBytes: { default: 134217728, min: 409600, max: 4294967296 },
  indexShards: { default: 10, min: 1, max: 100 },
  eventId: { default: "message-id", pattern: /^(message-id|body-hash|attribute:.+|json:.+)$/ },
  eventIdPrefix: { default: "", pattern: /^[ -~]{0,256}$/ },
  batchKey: { default: "" },
  batchKeysMax: { default: 1000, min: 1, max: 10000 },
  onDuplicate: { default: "drop", allowed: ["drop", "requeue"] },
  sealWhenDrained: { default: "off", allowed: ["on", "off"] },
  dedupWindow: { default: 3600, min: 1440, max: 1123200 },
  writeMode: { default: "batch", allowed: ["batch", "put"] },
  writeConcurrency: { default: 64, min: 1, max: 900 },
  deadlineMarginMs: { default: 3000, min: 100, max: 10000 },
  verifyDelay: { default: 60, min: 1, max: 900 },
  maxPartBytes: { default: 67108864, min: 1048576, max: 1073741824 },
  sink: { default: "log:", pattern: /^(log:|file:\/\/\/.+|https:\/\/.+|postgres:\/\/[^:@\/]+@.+|s3:\/\/[a-z0-9.-]+(\/[A-Za-z0-9!_.=-]+)*|arn:[a-z-]+:states:[a-z0-9-]+:[0-9]+:stateMachine:[A-Za-z0-9_-]+|arn:[a-z-]+:lambda:[a-z0-9-]+:[0-9]+:function:[A-Za-z0-9_-]+(:[A-Za-z0-9_-]+)?)$/ },
  sinkFormat: { default: "envelope", allowed: ["envelope", "body", "csv", "fixed-width"] },
  sinkColumns: { default: "", pattern: /^(\[.*\])?$/ },
  sinkHeader: { default: "on", allowed: ["on", "off"] },
  sinkCompression: { default: "none", allowed: ["none", "gzip", "zstd"] },
  sinkTimeout: { default: 30, min: 1, max: 900 },
  sinkRejects: { default: "", pattern: /^(file:\/\/\/.+|s3:\/\/[a-z0-9.-]+(\/[A-Za-z0-9!_.=-]+)*)?$/ },
  sinkPayloads: { default: "", pattern: /^(s3:\/\/[a-z0-9.-]+(\/[A-Za-z0-9!_.=-]+)*)?$/ },
  sinkSecret: { default: "", pattern: /^((secretsmanager|ssm):[!-~]{1,2048})?$/ },
  sinkSecretHeader: { default: "authorization", pattern: /^[a-z0-9_-]+$/ },
  sinkSecretArn: { default: "", pattern: /^(arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]+:secret:[A-Za-z0-9\/_+=.@-]+|arn:[a-z-]+:ssm:[a-z0-9-]+:[0-9]+:parameter\/[A-Za-z0-9\/_.-]+)?$/ },
  secretsLayerArn: { default: "", pattern: /^(arn:[a-z-]+:lambda:[a-z0-9-]+:[0-9]+:layer:[A-Za-z0-9_-]+:[0-9]+)?$/ },
  sinkTable: { default: "events", pattern: /^[^".]{1,55}([.][^".]{1,55})?$/ },
  sinkPassword: { default: "" },
  sinkRejectsMax: { default: 10000, min: 0, max: 1000000 },
  overflowBucket: { default: "", pattern: /^([a-z0-9.-]{3,63})?$/ },
  kmsKeyArn: { default: "", pattern: /^(arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]+:key\/[A-Za-z0-9-]+)?$/ },
  lockTableWarmReads: { default: 12000, min: 12000 },
  lockTableWarmWrites: { default: 0 },
  logRetentionDays: { default: 30, allowed: [1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731] },
  alarmTopicArn: { default: "", pattern: /^(arn:[a-z-]+:sns:[a-z0-9-]+:[0-9]+:.+)?$/ },
  oldestMessageSeconds: { default: 1800, min: 60 },
} as const satisfies Record<string, NumberParameter | TextParameter>;

export type ParameterName = keyof typeof parameters;
type ValueOf<P> = P extends { allowed: readonly (infer V)[] } ? V : P extends { default: number } ? number : string;
/** One value for each parameter. */
export type Values = { readonly [N in ParameterName]: ValueOf<(typeof parameters)[N]> };

/** Every parameter with the value chosen or its default; all that is wrong is told at once. */
export function resolve(chosen: Partial<Values>): Values {
  const problems: string[] = [];
  const values: Record<string, number | string> = {};
  for (const name of Object.keys(chosen)) {
    if (!(name in parameters)) problems.push(`there is no parameter ${name}`);
  }
  for (const [name, spec] of Object.entries<NumberParameter | TextParameter>(parameters)) {
    const value = chosen[name as ParameterName] ?? spec.default;
    values[name] = value;
    const problem = wrong(spec, value);
    if (problem) problems.push(`${name} is ${JSON.stringify(value)}, expected ${problem}`);
  }
  if (problems.length > 0) throw new Error(problems.join('; '));
  return values as unknown as Values;
}

function wrong(spec: NumberParameter | TextParameter, value: number | string): string | undefined {
  if (typeof value !== typeof spec.default) return `a ${typeof spec.default}`;
  const allowed: readonly (number | string)[] | undefined = spec.allowed;
  if (allowed && !allowed.includes(value)) return `one of ${allowed.join(', ')}`;
  if ('pattern' in spec && spec.pattern && !spec.pattern.test(String(value))) return `a text like ${spec.pattern}`;
  if (typeof value === 'number') {
    const { min = Number.MIN_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER } = spec as NumberParameter;
    if (!Number.isSafeInteger(value) || value < min || value > max) return `a whole number from ${min} to ${max}`;
  }
  return undefined;
}

/** Values from texts, as a command line has them. */
export function parse(texts: (name: ParameterName) => unknown): Partial<Values> {
  const found: Record<string, number | string> = {};
  for (const [name, spec] of Object.entries<NumberParameter | TextParameter>(parameters)) {
    const text = texts(name as ParameterName);
    if (text !== undefined) found[name] = typeof spec.default === 'number' ? Number(text) : String(text);
  }
  return found as Partial<Values>;
}
