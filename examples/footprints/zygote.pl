#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A zygote: it loads modules and tables once, and forks a process for each job. One job here: a
# report over a fifth of the tables.
use strict;
use warnings;
use JSON::PP;
use POSIX qw(_exit strftime);
use Text::Wrap;

my $seed = 1988;
sub chance { $seed = ($seed * 1103515245 + 12345) & 0x7fffffff; $seed % $_[0] }

my %orders = map {
    ("order$_" => {
        customer => 'customer' . chance(5000),
        items    => [map { { name => 'item' . chance(900), price => chance(10000) } } 1 .. 3],
    })
} 1 .. 40000;

sub job {
    my %total;
    for my $number (1 .. 8000) {
        my $order = $orders{"order$number"};
        $total{$order->{customer}} += $_->{price} for @{$order->{items}};
    }
    my @best = (sort { $total{$b} <=> $total{$a} } keys %total)[0 .. 99];
    my $text = encode_json([map { { customer => $_, total => $total{$_} } } @best]);
    length(wrap('', '  ', $text)) > 1000 or die 'an empty report';
}

my $pid = fork() // die "fork: $!";
if ($pid == 0) {
    job();
    _exit(0);
}
waitpid($pid, 0);
exit($? ? 1 : 0);
