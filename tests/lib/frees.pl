# SPDX-License-Identifier: Apache-2.0 OR MIT
# A child writes each page of 32 MiB and frees them before it ends.
use strict;
use warnings;

my @memory = map { "x" x (1 << 20) } 1 .. 32;
if (!(my $child = fork())) {
	for my $block (@memory) { substr($block, $_ * 4096, 1) = "y" for 0 .. 255; }
	undef @memory;
} else {
	waitpid($child, 0);
}
