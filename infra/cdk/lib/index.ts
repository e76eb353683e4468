export * from './aggregator';
export { Answers } from './answers';
export { Bodies, Completion, LockTableCapacity, OnDuplicate, type ProvisionedUnits } from './choices';
export type { Place } from './grants';
export { type S3SinkOptions, type SecretOptions, Sink, type StateMachineSinkOptions } from './sink';
