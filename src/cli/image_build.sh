# shellcheck shell=sh
# In the sandbox of `brig image build` (image_build.c, which holds it as a string): a root filesystem of the packages
# in /tmp/debs as a tar stream on standard output, NAME=VERSION of each on standard error, or why not.
#
# The filter refuses mount and chroot, hence fakechroot; with one id only also fakeroot. Most of the time goes
# into starting processes, so what touches many files is one program of perl, which mmdebstrap needs anyway.
# What depends on time, chance or the builder is taken away: the same packages make the same bytes.
#
# $1 suite, $2 user or empty, $3 working folder or empty, $4 owners: keep or one, $5 packages that stay out, as a
# list of dpkg's Provides, or empty
exec 3>&1 4>&2 >/tmp/log 2>&1
fail() { # the first error, which has the reason; what called it only says that it failed
	grep -m1 -E 'dpkg(-deb)?: error|^E: |: (No space left|Cannot allocate)' /tmp/log >&4 || tail -n 3 /tmp/log >&4
	exit 1
}
r=/tmp/root
umask 022
export TMPDIR=/tmp PYTHONHASHSEED=0
cd /tmp/debs || fail

# The time of the image is that of its newest package, from the first ar header of each, ar(5).
SOURCE_DATE_EPOCH=$(perl -e '
	my $newest = 0;
	for my $f (glob("*.deb")) {
		open(my $h, "<", $f) or die "$f: $!\n";
		read($h, my $ar, 36) == 36 or die "$f: no package\n";
		my $t = substr($ar, 24, 12) + 0;
		$newest = $t if $t > $newest;
	}
	print "$newest\n";') || fail
export SOURCE_DATE_EPOCH
if [ -n "$5" ]; then
	mkdir -p /tmp/without/DEBIAN || fail
	printf '%s\n' 'Package: brig-without' 'Version: 1' 'Architecture: all' 'Maintainer: brig' \
		'Description: in the place of packages that were left out' "Provides: $5" >/tmp/without/DEBIAN/control
	dpkg-deb --build /tmp/without /tmp/debs/brig-without.deb || fail
fi
# A flat repository of them, which says it is of the suite: by that apt knows what is essential.
perl -MDigest::SHA -e '
	sub sum { Digest::SHA->new(256)->addfile($_[0], "b")->hexdigest }
	open(my $out, ">", "Packages") or die;
	open(my $names, ">", "/tmp/names") or die;
	my @names;
	for my $f (sort glob("*.deb")) {
		open(my $d, "-|", "dpkg-deb", "-f", $f) or die;
		my $control = do { local $/; <$d> };
		close($d) && $control =~ /^Package: (\S+)$/m or die "$f is no package\n";
		push @names, $1;
		print $out $control, "Filename: ./$f\nSize: ", -s $f, "\nSHA256: ", sum($f), "\n\n";
	}
	print $names join(",", @names);
	close($out) && close($names) or die;
	open(my $rel, ">", "Release") or die;
	print $rel "Suite: $ARGV[0]\nCodename: $ARGV[0]\nSHA256:\n ", sum("Packages"), " ", -s "Packages", " Packages\n";
	close($rel) or die;' "$1" || fail

cd /tmp || fail
# As root chown works, so there is nothing to fake.
if [ "$4" = keep ]; then fake=fakechroot; else
	fake=
	export FAKEROOTDONTTRYCHOWN=1 # with one id fakeroot must not even try: the kernel says EINVAL, which it passes on
fi
# dpkg leaves these out, also later in the image. As a file and not by --dpkgopt, which would start a filter of
# python for each package.
cat >/tmp/leave-out <<'END'
force-unsafe-io
path-exclude=/usr/share/man/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/lintian/*
path-exclude=/usr/share/bug/*
path-exclude=/usr/lib/python3/dist-packages/*/tests/*
END
# What packages start once each is done once for all of them at the end. Until then nothing stands in its place,
# in the first folder of the PATH that apt gives to dpkg.
cat >/tmp/setup <<'END'
set -e
for d in bin sbin lib lib32 lib64 libx32; do
	mkdir -p "$1/usr/$d"
	ln -s "usr/$d" "$1/$d"
done
mkdir -p "$1/etc/dpkg/dpkg.cfg.d"
cp /tmp/leave-out "$1/etc/dpkg/dpkg.cfg.d/brig"
printf '#!/bin/sh\n' >"$1/usr/sbin/py3compile"
chmod 755 "$1/usr/sbin/py3compile"
END
cat >/tmp/finish <<'END'
set -e
rm "$1/usr/sbin/py3compile"
# As py3compile does, a file that does not compile is left as it is.
[ ! -x "$1/usr/bin/py3compile" ] || chroot "$1" python3 -m compileall -q /usr/lib/python3/dist-packages || :
END
# shellcheck disable=SC2016 # mmdebstrap's shell replaces $1
$fake mmdebstrap --mode=fakechroot --variant=essential --include="$(cat /tmp/names)" --format=directory \
	--setup-hook='sh /tmp/setup "$1"' --customize-hook='sh /tmp/finish "$1"' \
	"$1" $r 'deb [trusted=yes] copy:///tmp/debs ./' || fail
[ "$(stat -f -c %a /tmp)" -gt 16 ] || { echo 'no space left on --disk' >&4; exit 1; }
# What it unpacked before there was a dpkg.
for d in man info locale lintian bug; do find $r/usr/share/$d -mindepth 1 -delete; done
find $r/usr/share/doc -mindepth 1 ! -type d ! -name copyright -delete
find $r/usr/share/doc -mindepth 1 -type d -empty -delete
# py3compile trusts dpkg's lists of files.
perl -i -ne 'print unless m{^/usr/lib/python3/dist-packages/.*/tests(/|$)}' $r/var/lib/dpkg/info/python3-*.list 2>/dev/null

# fakechroot writes its root before absolute targets. And no setuid: nothing in a sandbox could use it.
perl -MFile::Find -e '
	my $r = shift;
	find({no_chdir => 1, wanted => sub {
		if (-l) {
			my $t = readlink;
			$t =~ s{^\Q$r\E(?=/|$)}{} or return;
			index($t, $r) < 0 or die "$_ leads out of the root\n";
			unlink && symlink($t eq "" ? "/" : $t, $_) or die "$_: $!\n";
		} else {
			my $m = (stat _)[2] & 07777;
			my $want = $m | 0600 | (-d _ ? 0100 : 0);
			$want &= 01777 if -f _;
			$m == $want or chmod $want, $_ or die "$_: $!\n";
		}
	}}, $r);' $r || fail
if [ -n "$2" ]; then
	if grep -q "^$2:" $r/etc/passwd $r/etc/group || grep -qE '^[^:]*:[^:]*:1000:' $r/etc/passwd $r/etc/group; then
		echo "the packages have an account '$2' or of uid 1000 already" >&4
		exit 1
	fi
	echo "$2:x:1000:1000::/home/$2:/bin/bash" >>$r/etc/passwd
	echo "$2:x:1000:" >>$r/etc/group
	[ ! -e $r/etc/shadow ] || echo "$2:*:19000:0:99999:7:::" >>$r/etc/shadow
	mkdir -p "$r/home/$2" || fail
	[ "$4" != keep ] || chown 1000:1000 "$r/home/$2" || fail
fi
if [ -n "$3" ] && [ ! -e "$r$3" ]; then
	mkdir -p "$r$3" || fail
	[ -z "$2" ] || [ "$4" != keep ] || chown 1000:1000 "$r$3" || fail
fi
mkdir -p $r/var/cache/apt $r/var/lib/apt
find $r/dev $r/run $r/tmp $r/var/tmp $r/var/cache/apt $r/var/lib/apt -mindepth 1 -delete
find $r/var/log -type f -delete
touch -d @$SOURCE_DATE_EPOCH $r/dev $r/run $r/tmp $r/var/tmp $r/var/cache/apt $r/var/lib/apt
rm -f $r/var/cache/ldconfig/aux-cache $r/var/lib/dbus/machine-id $r/etc/resolv.conf $r/etc/hostname \
	$r/var/lib/systemd/random-seed $r/var/cache/debconf/*-old $r/var/lib/dpkg/*-old $r/etc/*- \
	$r/etc/apt/sources.list $r/etc/apt/sources.list.d/* $r/etc/apt/apt.conf.d/99mmdebstrap
: >$r/etc/machine-id
own=
[ "$4" = keep ] || own='--owner=0 --group=0'
dpkg-query --admindir=$r/var/lib/dpkg -W -f '${Package}=${Version}\n' | grep -v '^brig-without=' >&4 || fail
# shellcheck disable=SC2086 # $own is none or two words
tar --format=pax --numeric-owner --sort=name --mtime=@$SOURCE_DATE_EPOCH --clamp-mtime \
	--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime $own -C $r -cf - . >&3 || fail
