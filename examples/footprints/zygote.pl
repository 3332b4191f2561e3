#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A zygote: it loads modules and tables once, and forks a process for each job. One job here: a
# report over a fifth of the tables.
#
#   zygote.pl
#       forks one job
#   zygote.pl FILE PAIRS
#       the same job done in turn by a zygote itself and by a process that one forks: what each took goes
#       to FILE, one JSON object a line, as marks.c has them. Each is a zygote of its own, because a job
#       leaves marks in the tables (a number's text, say) that the next would not write again
use strict;
use warnings;
use JSON::PP;
use POSIX qw(_exit strftime);
use Text::Wrap;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID);

if (@ARGV == 2) {
    my ($file, $pairs) = @ARGV;
    # The first of three would settle what a fork leaves behind, and a new process has nothing of it.
    for my $pair (grep { $_ % 3 } 0 .. $pairs - 1) {
        system($^X, $0, $file, $pair, $pair % 3 == 2 ? 1 : 0) == 0 or exit(1);
    }
    exit(0);
}

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

sub text_of { open(my $file, '<', "/proc/self/$_[0]") or die $!; local $/; my $text = <$file>; $text }
sub as_row { my $text = text_of($_[0]); $text =~ tr/\t\n/ |/; $text }
# minflt of proc_pid_stat(5): the eighth word after the name.
sub faults { (split ' ', (split /\) /, text_of('stat'))[-1])[7] + 0 }
sub ns { int(1e9 * clock_gettime($_[0])) }

sub work {
    my ($began, $before) = (ns(CLOCK_PROCESS_CPUTIME_ID), faults());
    job();
    return { cpu_ns => ns(CLOCK_PROCESS_CPUTIME_ID) - $began, minor_faults => faults() - $before };
}

sub forked {
    pipe(my $reading, my $writing) or die "pipe: $!";
    my ($wall, $cpu) = (ns(CLOCK_MONOTONIC), ns(CLOCK_PROCESS_CPUTIME_ID));
    my $pid = fork() // die "fork: $!";
    if ($pid == 0) {
        my $row = work();
        $row->{child_rollup} = as_row('smaps_rollup');
        $row->{child_status} = as_row('status');
        syswrite($writing, encode_json($row));
        _exit(0);
    }
    my %fork = (fork_ns => ns(CLOCK_MONOTONIC) - $wall);
    my $fork_cpu_ns = ns(CLOCK_PROCESS_CPUTIME_ID) - $cpu;
    close($writing);
    my $row = decode_json(join '', <$reading>);
    waitpid($pid, 0);
    $? == 0 or die 'the job failed';
    $row->{cpu_ns} += $fork_cpu_ns;
    return { %$row, %fork };
}

if (@ARGV == 3) {
    my ($file, $pair, $held) = @ARGV;
    my $row = $held ? forked() : work();
    open(my $rows, '>>', $file) or die "$file: $!";
    print $rows encode_json({ pair => $pair + 0, held => $held + 0, %$row }), "\n";
    close($rows) or die "$file: $!";
    exit(0);
}

my $pid = fork() // die "fork: $!";
if ($pid == 0) {
    job();
    _exit(0);
}
waitpid($pid, 0);
exit($? ? 1 : 0);
