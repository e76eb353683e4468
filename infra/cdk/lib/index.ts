export { parameters, parse, resolve, type ParameterName, type Values } from './parameters';
export { UniqueEventBatchAggregator, type UniqueEventBatchAggregatorProps } from './aggregator';
