# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# What the expressions of `json` and `frames` (common.sh) call. $documents has the file's documents.

def d: $documents[0];
def rows: d.samples;

# What a watch saw, a frame a line, and the first process of the last one.
def frames: $documents | map(.summary);
def latest: frames | last.processes[0];

# A row's field or parameter; null where it has none.
def field($name): if has($name) then .[$name] else .params[$name] end;

# Rows whose fields and parameters are as an object says.
def pick($wanted): rows | map(select(
	. as $row | $wanted | to_entries | all(.key as $name | .value == ($row | field($name)))));

def values($metric; $wanted): pick({metric: $metric} + $wanted) | map(.value);
def values($metric): values($metric; {});

# The value of the only one.
def one($metric; $wanted): values($metric; $wanted) |
	if length == 1 then .[0] else error("\(length) samples, not one, of \($metric) for \($wanted)") end;
def one($metric): one($metric; {});

# What a histogram's row says at each quantile, in their order.
def quantiles($metric; $wanted):
	["min", "p50", "p90", "p95", "p99", "p99.9", "max"] | map(one($metric; {quantile: .} + $wanted));

# {params: {…}, METRIC: value, …} for each combination of the parameters' values.
def cells($names): rows | group_by([field($names[])]) |
	map({params: .[0].params} + (map({key: .metric, value: .value}) | from_entries));

# Of an array of rows: the values of a field or parameter.
def distinct($name): map(field($name)) | unique;

# Of an array: whether it has the same elements, these among others, is in order.
def same($expected): unique == ($expected | unique);
def includes($expected): $expected - . == [];
def ordered: . == sort;
