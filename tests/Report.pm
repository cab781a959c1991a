# SPDX-License-Identifier: BSD-3-Clause
# A formatter for prove. Prints what the tests print. Appends to the file that
# EXANEST_TEST_REPORT names: each failed test with its comments, each skipped
# test, and "count: PASSED FAILED SKIPPED" for each program.
package Report;

use strict;
use warnings;
use parent 'TAP::Formatter::Base';

my %open;

sub open_test
{
	my ($self, $name, $parser) = @_;
	$| = 1;
	open my $report, '>>', $ENV{EXANEST_TEST_REPORT} // '/dev/stderr' or die "$!";
	$report->autoflush;
	return $open{$name} = Report::Session->new(
		{ name => $name =~ s,.*/,,r, formatter => $self, parser => $parser, show_count => 0 })
		->begin($name, $report, \%open);
}

# The time limit of a group ends prove by this signal.
$SIG{TERM} = sub {
	for my $session (values %open) {
		$session->fail('not finished at the time limit of its group');
		$session->end;
	}
	exit 143;
};

sub summary { }

package Report::Session;

use parent 'TAP::Formatter::Session';
use IO::Handle;
use List::Util 'sum';

# How many lines about a failure are reported, and how many of these are the last before it.
use constant { MOST => 60, LAST => 20 };

sub begin
{
	my ($self, $key, $report, $open) = @_;
	@$self{qw(key report open passed failed skipped before after)} =
		($key, $report, $open, 0, 0, 0, [], 0);
	return $self;
}

sub say_report
{
	my ($self, @lines) = @_;
	print { $self->{report} } map { substr($_, 0, 300) . "\n" } @lines;
}

sub fail
{
	my ($self, $what) = @_;
	my @lines = @{ $self->{before} };
	if (@lines > MOST) {
		my @last = splice @lines, -LAST;
		@lines = grep { /FAIL|[Ee]rror|\*\*\* |not ok/ } @lines;
		@lines = (splice(@lines, 0, MOST - LAST), @last);
	}
	$self->{failed}++;
	$self->say_report("failed: " . $self->name . ": $what", map { "| $_" } @lines);
	$self->{before} = [];
	$self->{after} = MOST;
}

sub result
{
	my ($self, $result) = @_;
	print $result->raw, "\n";
	if (!$result->is_test) {
		return if $result->is_plan;
		push @{ $self->{before} }, $result->raw;
		$self->say_report("| " . $result->raw) if $self->{after} && $self->{after}--;
		return;
	}
	$self->{after} = 0;
	my $name = $result->description =~ s/^- //r;
	if ($result->has_skip) {
		$self->{skipped}++;
		$self->say_report(join ': ', 'skipped', grep { length } $self->name, $name,
			$result->explanation);
	} elsif ($result->is_ok) {
		$self->{passed}++;
	} else {
		$self->fail($name);
	}
	$self->{before} = [];
}

sub end
{
	my ($self) = @_;
	$self->say_report("count: @$self{qw(passed failed skipped)}");
	delete $self->{open}{ $self->{key} };
}

sub close_test
{
	my ($self) = @_;
	my $parser = $self->parser;
	my $reason = $parser->exit ? 'exit status ' . $parser->exit
		: $parser->wait ? 'ended by signal ' . ($parser->wait & 127)
		: join '; ', $parser->parse_errors;
	# This is how programs end after a failed test.
	$reason = '' if $self->{failed} && $parser->exit == 1;
	if ($parser->skip_all) {
		$self->{skipped}++;
		$self->say_report("skipped: " . $self->name . ': ' . $parser->skip_all);
	} elsif ($reason) {
		$self->fail($reason);
	}
	$self->end;
	# With prove -j the times include what runs beside it.
	my $used = sum(@{ $parser->end_times }) - sum(@{ $parser->start_times });
	$used = $self->formatter->jobs > 1 ? '' : sprintf ', %.1f s of processor', $used;
	printf "# %s: %.1f s%s\n", $self->name, $parser->end_time - $parser->start_time, $used;
}

1;
