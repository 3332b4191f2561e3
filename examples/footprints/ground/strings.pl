# SPDX-License-Identifier: Apache-2.0 OR MIT
# perl strings.pl RUNS: a hash of 150,000 strings; 15,000 of them, at random, become longer or shorter, RUNS
# times, each between two marks (../marks.c). With another allocator by LD_PRELOAD.
use strict;
use warnings;

srand(1988);
my %strings = map { ("key$_" => 'x' x (20 + $_ % 100)) } 1 .. 150_000;
for my $run (1 .. $ARGV[0]) {
	kill 40, $$;
	for (1 .. 15_000) {
		my $key = 'key' . (1 + int rand 150_000);
		$strings{$key} = length $strings{$key} > 100 ? 'y' x 20 : $strings{$key} . 'more of it';
	}
	kill 41, $$;
}
