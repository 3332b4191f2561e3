#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A zygote: it loads modules and tables once, and forks a process for each job. One job here: a
# report over a fifth of the tables.
#
#   zygote.pl                one job
#   zygote.pl --warm         the same in a zygote that has done the job before: Perl keeps numbers and
#                            iterators in what it reads, and what the zygote wrote no child copies
#   zygote.pl ROWS PAIRS     the job in turn by the zygote itself, so a warm one, and by a process that
#                            it forks: what each took goes to ROWS, one JSON object a line, as marks.c
#                            has them
use strict;
use warnings;
use JSON::PP;
use POSIX qw(_exit strftime);
use Text::Wrap;
use Time::HiRes qw(clock_gettime CLOCK_PROCESS_CPUTIME_ID);

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

sub text_of {
    open my $file, '<', "/proc/self/$_[0]" or die "/proc/self/$_[0]: $!";
    local $/;
    my $text = <$file>;
    return $text =~ tr/\t\n/ |/r;
}

sub cpu_ns { int(clock_gettime(CLOCK_PROCESS_CPUTIME_ID) * 1e9) }
sub faults { (split ' ', text_of('stat') =~ s/.*\)//r)[7] }

sub timed_job {
    my ($began, $faults) = (cpu_ns(), faults());
    job();
    return { cpu_ns => cpu_ns() - $began, minor_faults => faults() - $faults };
}

# A job in a child, and the fork of it.
sub forked_job {
    pipe(my $reading, my $writing) or die "pipe: $!";
    my $began = cpu_ns();
    my $pid = fork() // die "fork: $!";
    if ($pid == 0) {
        my $row = timed_job();
        $row->{"child_$_->[0]"} = text_of($_->[1]) for ['rollup', 'smaps_rollup'], ['status', 'status'];
        syswrite $writing, encode_json($row);
        _exit(0);
    }
    my $fork_ns = cpu_ns() - $began;
    close $writing;
    my $row = decode_json(join '', <$reading>);
    waitpid($pid, 0);
    $row->{cpu_ns} += $fork_ns;
    return { %$row, fork_ns => $fork_ns };
}

my $is_warm = @ARGV && $ARGV[0] eq '--warm';
if (@ARGV && !$is_warm) {
    my ($file, $pairs) = @ARGV;
    open my $rows, '>>', $file or die "$file: $!";
    for my $pair (0 .. $pairs - 1) {
        my $held = $pair % 3 == 2 ? 1 : 0;
        # A job does not touch all that the one before touched: after a fork it takes some to settle.
        map { job() } 1 .. 4 if $pair % 3 == 0;
        my $row = $held ? forked_job() : timed_job();
        print $rows encode_json({ pair => $pair, held => $held, %$row }), "\n";
    }
    close $rows or die "$file: $!";
    exit 0;
}

job() if $is_warm;
my $pid = fork() // die "fork: $!";
if ($pid == 0) {
    job();
    _exit(0);
}
waitpid($pid, 0);
exit($? ? 1 : 0);
