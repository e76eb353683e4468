/** Which functions read a parameter as a variable; `maxBatchSize` sets `MAX_BATCH_SIZE`. */
export type Readers = 'both' | 'aggregator' | 'batchProcessor';

export interface NumberParameter {
  readonly readBy?: Readers;
  readonly default: number;
  readonly min?: number;
  readonly max?: number;
  readonly allowed?: readonly number[];
  /** A pattern of the digits, if bounds cannot express what is allowed. */
  readonly pattern?: RegExp;
}

export interface TextParameter {
  readonly readBy?: Readers;
  readonly default: string;
  readonly allowed?: readonly string[];
  readonly pattern?: RegExp;
  readonly maxLength?: number;
}

/**
 * The parameters of the stack. They are the same as in the SAM template, which describes each; infra/checks compares names,
 * defaults and bounds.
 */
export const parameters = {
  architecture: { default: "x86_64", allowed: ["x86_64", "arm64"] },
  memorySize: { default: 1769, min: 512, max: 10240 },
  aggregatorTimeout: { default: 60, allowed: [15, 30, 60, 120, 180] },
  batchProcessorTimeout: { default: 300, allowed: [60, 120, 300, 600, 900] },
  inputBatchSize: { default: 10000, min: 1, max: 10000 },
  inputBatchingWindow: { default: 1, allowed: [1, 2, 5, 10, 20, 60, 300] },
  inputScaling: { default: "maximum-concurrency", allowed: ["maximum-concurrency", "provisioned"] },
  aggregatorConcurrency: { default: 50, min: 2, max: 1000 },
  pollersMin: { default: 2, allowed: [2, 5, 10, 20, 50, 100, 200] },
  pollersMax: { default: 200, min: 2, max: 2000 },
  batchProcessorConcurrency: { default: 2, min: 2, max: 1000 },
  sweepMinutes: { default: 5, allowed: [2, 5, 10, 15] },
  tracing: { default: "PassThrough", allowed: ["PassThrough", "Active"] },
  maxSecondaryBatchingWindow: { default: 300, min: 1, max: 700, readBy: 'aggregator' },
  maxBatchSize: { default: 50000, min: 1, max: 500000, readBy: 'both' },
  maxBatchBytes: { default: 134217728, min: 409600, max: 4294967296, readBy: 'both' },
  indexShards: { default: 10, min: 1, max: 100, readBy: 'aggregator' },
  eventId: { default: "message-id", pattern: /^(message-id|body-hash|attribute:[ -~]+|json:[ -~]+)$/, maxLength: 256, readBy: 'aggregator' },
  eventIdPrefix: { default: "", pattern: /^[ !#-\[\]-~]*$/, maxLength: 128, readBy: 'aggregator' },
  batchKey: { default: "", pattern: /^[ -~]*$/, maxLength: 256, readBy: 'aggregator' },
  batchKeysMax: { default: 1000, min: 1, max: 10000, readBy: 'aggregator' },
  onDuplicate: { default: "drop", allowed: ["drop", "requeue"], readBy: 'aggregator' },
  maxReceiveCount: { default: 50, min: 5, max: 1000 },
  bypass: { default: "", pattern: /^[ -~]*$/, maxLength: 128, readBy: 'aggregator' },
  closeAt: { default: "", pattern: /^([0-9:, ]+ [A-Za-z0-9\/_+-]+)?$/, maxLength: 96, readBy: 'aggregator' },
  closeTime: { default: "", pattern: /^[ -~]*$/, maxLength: 64, readBy: 'aggregator' },
  closeAfterIdle: { default: 0, min: 0, max: 43200, readBy: 'aggregator' },
  quota: { default: "", pattern: /^[ -~]*$/, maxLength: 96, readBy: 'aggregator' },
  quotaMax: { default: 0, min: 0, max: 1000000000, readBy: 'aggregator' },
  quotaPeriod: { default: "day", pattern: /^(minute|hour|day( [A-Za-z0-9\/_+-]+)?)$/, maxLength: 36, readBy: 'aggregator' },
  quotaTime: { default: "", pattern: /^[ -~]*$/, maxLength: 64, readBy: 'aggregator' },
  quotaBeyond: { default: "quarantine", allowed: ["quarantine", "wait"], readBy: 'aggregator' },
  sealWhenDrained: { default: "off", allowed: ["on", "off"], readBy: 'aggregator' },
  dedupWindow: { default: 3600, min: 1440, max: 1123200, readBy: 'both' },
  writeMode: { default: "batch", allowed: ["batch", "put"], readBy: 'both' },
  writeConcurrency: { default: 64, min: 1, max: 900, readBy: 'both' },
  deadlineMarginMs: { default: 3000, min: 2000, max: 10000, readBy: 'both' },
  verifyDelay: { default: 60, min: 1, max: 900, readBy: 'batchProcessor' },
  maxPartBytes: { default: 67108864, min: 1048576, max: 1073741824, readBy: 'both' },
  duplicatesSqsUrl: { default: "", pattern: /^(https:\/\/sqs\.[a-z0-9-]+\.amazonaws\.com(\.cn)?\/[0-9]{12}\/[A-Za-z0-9_-]{1,80})?$/, maxLength: 128, readBy: 'aggregator' },
  deliveryHours: { default: "", pattern: /^([A-Za-z0-9:, -]+ [A-Za-z0-9\/_+-]+)?$/, maxLength: 128, readBy: 'batchProcessor' },
  deliveryMaxPerSecond: { default: 0, min: 0, max: 1000000, readBy: 'batchProcessor' },
  completion: { default: "", pattern: /^(https:\/\/sqs\.[a-z0-9-]+\.amazonaws\.com(\.cn)?\/[0-9]{12}\/[A-Za-z0-9_-]{1,80}|arn:[a-z-]+:events:[a-z0-9-]+:[0-9]{12}:event-bus\/[A-Za-z0-9._-]+)?$/, maxLength: 128, readBy: 'batchProcessor' },
  sink: { default: "log:", pattern: /^(log:|file:\/\/\/[ !#-\[\]-~]+|https:\/\/[!#-\[\]-~]+|(postgres|sftp):\/\/[!#-.0-9;-?A-\[\]-~]+@[!#-\[\]-~]+|s3:\/\/[a-z0-9.-]+(\/[A-Za-z0-9!_.=-]+){0,6}|arn:[a-z-]+:states:[a-z0-9-]+:[0-9]+:stateMachine:[A-Za-z0-9_-]+(:[A-Za-z0-9_.-]+)?|arn:[a-z-]+:lambda:[a-z0-9-]+:[0-9]+:function:[A-Za-z0-9_-]+(:[A-Za-z0-9_-]+)?)$/, maxLength: 320, readBy: 'batchProcessor' },
  sinkFormat: { default: "envelope", allowed: ["envelope", "body", "csv", "fixed-width", "parquet"], readBy: 'batchProcessor' },
  sinkColumns: { default: "", pattern: /^(\[[ -~]*\]|file:\/\/\/[!#-\[\]-~]+|s3:\/\/[a-z0-9.-]+(\/[A-Za-z0-9!_.=-]+)+)?$/, maxLength: 144, readBy: 'batchProcessor' },
  sinkHeader: { default: "on", allowed: ["on", "off"], readBy: 'batchProcessor' },
  sinkEncoding: { default: "utf-8", allowed: ["utf-8", "iso-8859-1", "windows-1252", "ebcdic-cp037", "ebcdic-cp500"], readBy: 'batchProcessor' },
  sinkLineEnd: { default: "lf", allowed: ["lf", "crlf", "nel", "none"], readBy: 'batchProcessor' },
  sinkHeaderRecord: { default: "", pattern: /^[ !#-\[\]-~]*$/, maxLength: 128, readBy: 'batchProcessor' },
  sinkTrailerRecord: { default: "", pattern: /^[ !#-\[\]-~]*$/, maxLength: 128, readBy: 'batchProcessor' },
  sinkPath: { default: "", pattern: /^[A-Za-z0-9{}:%!_.=\/-]*$/, maxLength: 96, readBy: 'batchProcessor' },
  sinkTimeZone: { default: "UTC", pattern: /^[A-Za-z0-9_+\/-]+$/, maxLength: 32, readBy: 'batchProcessor' },
  sinkCompression: { default: "none", allowed: ["none", "gzip", "zstd"], readBy: 'batchProcessor' },
  sinkTimeout: { default: 30, min: 1, max: 900, readBy: 'batchProcessor' },
  sinkRejects: { default: "", pattern: /^(file:\/\/\/[ !#-\[\]-~]+|s3:\/\/[a-z0-9.-]+(\/[A-Za-z0-9!_.=-]+){0,6})?$/, maxLength: 128, readBy: 'batchProcessor' },
  sinkRejectsMax: { default: 10000, min: 0, max: 1000000, readBy: 'batchProcessor' },
  sinkPayloads: { default: "", pattern: /^(s3:\/\/[a-z0-9.-]+(\/[A-Za-z0-9!_.=-]+){0,6})?$/, maxLength: 128, readBy: 'batchProcessor' },
  sinkSecret: { default: "", pattern: /^((secretsmanager|ssm):[A-Za-z0-9\/_+=.@!:-]+)?$/, maxLength: 200, readBy: 'batchProcessor' },
  sinkSecretHeader: { default: "authorization", pattern: /^[a-z0-9_-]+$/, maxLength: 64, readBy: 'batchProcessor' },
  sinkSecretArn: { default: "", pattern: /^(arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]+:secret:[A-Za-z0-9\/_+=.@-]+|arn:[a-z-]+:ssm:[a-z0-9-]+:[0-9]+:parameter\/[A-Za-z0-9\/_.-]+)?$/ },
  secretsLayerArn: { default: "", pattern: /^(arn:[a-z-]+:lambda:[a-z0-9-]+:[0-9]+:layer:[A-Za-z0-9_-]+:[0-9]+)?$/ },
  sinkTable: { default: "events", pattern: /^[ !#-\-\/-\[\]-~]{1,55}([.][ !#-\-\/-\[\]-~]{1,55})?$/, maxLength: 111, readBy: 'batchProcessor' },
  sinkPassword: { default: "", pattern: /^[ !#-\[\]-~]*$/, maxLength: 200, readBy: 'batchProcessor' },
  sinkHostKey: { default: "", pattern: /^((SHA256:|ssh-|ecdsa-)[A-Za-z0-9 +\/=,:@._-]+)?$/, maxLength: 168, readBy: 'batchProcessor' },
  bodies: { default: "items", pattern: /^(items|table|s3|s3:\/\/[a-z0-9.-]{3,63}(\/[A-Za-z0-9!_.=-]+){0,6})$/, maxLength: 128, readBy: 'aggregator' },
  formerBodies: { default: "", pattern: /^(s3|s3:\/\/[a-z0-9.-]{3,63}(\/[A-Za-z0-9!_.=-]+){0,6})?$/, maxLength: 128 },
  overflowBucket: { default: "", pattern: /^([a-z0-9.-]{3,63})?$/, maxLength: 63, readBy: 'aggregator' },
  kmsKeyArn: { default: "", pattern: /^(arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]+:key\/[A-Za-z0-9-]+)?$/ },
  lockTableWarmReads: { default: 12000, min: 12000 },
  lockTableWarmWrites: { default: 0, pattern: /^(0|[4-9][0-9]{3}|[1-9][0-9]{4,6})$/ },
  logLevel: { default: "info", allowed: ["error", "warn", "info", "debug", "trace"], readBy: 'both' },
  logFormat: { default: "json", allowed: ["json", "text"], readBy: 'both' },
  logEventIds: { default: "off", allowed: ["on", "off"], readBy: 'both' },
  logRetentionDays: { default: 30, allowed: [1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731] },
  alarmTopicArn: { default: "", pattern: /^(arn:[a-z-]+:sns:[a-z0-9-]+:[0-9]+:.+)?$/ },
  oldestMessageSeconds: { default: 1800, min: 60 },
} as const satisfies Record<string, NumberParameter | TextParameter>;

export type ParameterName = keyof typeof parameters;
type ValueOf<P> = P extends { allowed: readonly (infer V)[] } ? V : P extends { default: number } ? number : string;
/** A value for each parameter. */
export type Values = { readonly [N in ParameterName]: ValueOf<(typeof parameters)[N]> };

/** Returns every parameter with its chosen value or its default. Throws one error with all problems. */
export function resolve(chosen: Partial<Values>): Values {
  const problems: string[] = [];
  const values: Record<string, number | string> = {};
  for (const name of Object.keys(chosen)) {
    if (!(name in parameters)) problems.push(`there is no parameter ${name}, expected one of the names in parameters.ts`);
  }
  for (const [name, spec] of Object.entries<NumberParameter | TextParameter>(parameters)) {
    const value = chosen[name as ParameterName] ?? spec.default;
    values[name] = value;
    const problem = wrong(spec, value);
    if (problem) problems.push(`${name} is ${JSON.stringify(value)}, expected ${problem}`);
  }
  if (problems.length === 0) problems.push(...combinedProblems(values as unknown as Values));
  if (problems.length > 0) throw new Error(problems.join('; '));
  return values as unknown as Values;
}

/** Returns the variables of a function that parameters set. */
export function variables(values: Values, reader: Exclude<Readers, 'both'>): Record<string, string> {
  const read = Object.entries<NumberParameter | TextParameter>(parameters).filter(([, { readBy }]) => readBy === 'both' || readBy === reader);
  const variable = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
  return Object.fromEntries(read.map(([name]) => [variable(name), `${values[name as ParameterName]}`]));
}

/** The most parts that a full batch may need. A batch can have 100; the other ten are for claims that are found late. */
const PARTS_MAX = 90;
/** The most events of a batch with its bodies in chunks. */
const CHUNK_BATCH_ITEMS_MAX = 100_000;
/** How many bytes a part counts for an event in addition to its body. */
const EVENT_OVERHEAD_BYTES = 256;

/** Returns the problems of parameters that are valid alone, but not together. */
function combinedProblems(values: Values): string[] {
  const problems: string[] = [];
  const { pollersMin, pollersMax, maxBatchSize, maxBatchBytes, maxPartBytes } = values;
  if (pollersMin > pollersMax) problems.push(`pollersMin is ${pollersMin}, expected at most pollersMax, which is ${pollersMax}`);
  const parts = Math.ceil((maxBatchBytes + EVENT_OVERHEAD_BYTES * maxBatchSize) / (0.75 * maxPartBytes));
  if (parts > PARTS_MAX) {
    problems.push(
      `maxPartBytes is ${maxPartBytes}, with which a batch of maxBatchBytes ${maxBatchBytes} and maxBatchSize ${maxBatchSize} ` +
        `needs ${parts} parts, expected at most ${PARTS_MAX}: make parts larger, or batches smaller`,
    );
  }
  if (values.bodies !== 'items' && maxBatchSize > CHUNK_BATCH_ITEMS_MAX) {
    problems.push(`maxBatchSize is ${maxBatchSize}, expected at most ${CHUNK_BATCH_ITEMS_MAX} with bodies ${values.bodies}`);
  }
  if (values.overflowBucket !== '' && values.bodies.split('/')[2] === values.overflowBucket) {
    problems.push(`bodies is ${values.bodies}, expected another bucket than overflowBucket`);
  }
  return problems;
}

function wrong(spec: NumberParameter | TextParameter, value: number | string): string | undefined {
  if (typeof value !== typeof spec.default) return `a ${typeof spec.default}`;
  const allowed: readonly (number | string)[] | undefined = spec.allowed;
  if (allowed && !allowed.includes(value)) return `one of ${allowed.join(', ')}`;
  if (spec.pattern && !spec.pattern.test(String(value))) return `a ${typeof value === 'number' ? 'number' : 'text'} like ${spec.pattern}`;
  if ('maxLength' in spec && spec.maxLength && String(value).length > spec.maxLength) return `at most ${spec.maxLength} characters`;
  if (typeof value === 'number') {
    const { min = Number.MIN_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER } = spec as NumberParameter;
    if (!Number.isSafeInteger(value) || value < min || value > max) return `a whole number from ${min} to ${max}`;
  }
  return undefined;
}

/** Parses parameters from texts, such as the context of the CDK command line. */
export function parse(texts: (name: ParameterName) => unknown): Partial<Values> {
  const found: Record<string, number | string> = {};
  for (const [name, spec] of Object.entries<NumberParameter | TextParameter>(parameters)) {
    const text = texts(name as ParameterName);
    if (text !== undefined) found[name] = typeof spec.default === 'number' ? Number(text) : String(text);
  }
  return found as Partial<Values>;
}
