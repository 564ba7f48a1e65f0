package TapTotals;
# A TAP::Harness for prove(1) (`prove --harness TapTotals`) that does two things more than the stock
# one: it appends "PASSED FAILED SKIPPED" to the file named by TAP_TOTALS, so that totals over many
# prove runs need no parsing of human text; and with BRIG_MUST_RUN set it counts a skipped test, or a
# file that skips itself, as failed.
use strict;
use warnings;
use parent 'TAP::Harness';

sub must_run { return ( $ENV{BRIG_MUST_RUN} // '' ) ne '' && $ENV{BRIG_MUST_RUN} ne '0' }

sub new {
    my ( $class, $args, @rest ) = @_;
    return $class->SUPER::new( { %{ $args // {} }, aggregator_class => 'TapTotals::Aggregator' },
        @rest );
}

# (passed, failed, skipped) of one finished test file.
sub count {
    my $p    = shift;
    my %skip = map { $_ => 1 } $p->skipped;
    my $pass = grep { !$skip{$_} } $p->passed;
    my $bad  = grep { !$skip{$_} } $p->failed;
    my $skip = keys %skip;
    $skip = 1 if !$skip && length( $p->skip_all // '' );
    # A wrong plan, an exit status or a signal without a failed test is one failure.
    $bad = 1 if !$bad && !( $skip && must_run() ) && ( $p->parse_errors || $p->exit || $p->wait );
    return ( $pass, $bad, $skip );
}

sub summary {
    my ( $self, $total, @rest ) = @_;
    $self->SUPER::summary( $total, @rest );

    my @names = $total->descriptions;
    my @sum   = ( 0, 0, 0 );
    for my $p ( $total->parsers(@names) ) {
        my $name  = shift @names;
        my @count = count($p);
        if ( $count[2] && must_run() ) {
            print "$name: $count[2] skipped, and BRIG_MUST_RUN is set\n";
            $count[1] += $count[2];
            $count[2] = 0;
        }
        $sum[$_] += $count[$_] for 0 .. 2;
    }
    if ( defined $ENV{TAP_TOTALS} ) {
        open my $fh, '>>', $ENV{TAP_TOTALS} or die "TAP_TOTALS: $ENV{TAP_TOTALS}: $!\n";
        print {$fh} "@sum\n";
        close $fh or die "TAP_TOTALS: $!\n";
    }
    return;
}

package TapTotals::Aggregator;
use TAP::Parser::Aggregator;
use parent -norequire, 'TAP::Parser::Aggregator';

sub has_errors {
    my $self = shift;
    if ( TapTotals::must_run() ) {
        return 1 if grep { ( TapTotals::count($_) )[2] } $self->parsers( $self->descriptions );
    }
    return $self->SUPER::has_errors(@_);
}

1;
