# SPDX-License-Identifier: Apache-2.0 OR MIT
# perl counters.pl RUNS: a hash of 300,000 counters; 25,000 of them, at random, count one more, RUNS times, each
# between two marks (../marks.c).
use strict;
use warnings;

srand(2022);
my %counters = map { ("page$_" => 0) } 1 .. 300_000;
for my $run (1 .. $ARGV[0]) {
	kill 40, $$;
	$counters{'page' . (1 + int rand 300_000)}++ for 1 .. 25_000;
	kill 41, $$;
}
