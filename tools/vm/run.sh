#!/bin/bash
# Run a command in a virtual machine with Debian's stock kernel, cgroup v2 only and the build of this
# checkout: tools/vm/run.sh [--append "KERNEL ARGS"] [--timeout S] [--keep-log FILE] -- CMD...
#
# Software emulation (QEMU TCG): works anywhere, also where /dev/kvm is missing. The guest sees two
# read-only disks, an image of Debian programs and a tar of the build, made anew for each run; it has
# no network and cannot write to the host. CMD runs as root in /brig, a copy of the checkout's build,
# tests and tools; its standard output and error are ours, its exit status too. 125 = the machine did
# not start or did not answer, 124 = it did not finish in time; the console's text is then shown.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
top=$(dirname "$(dirname "$here")")
# shellcheck source=tools/vm/cache.sh
. "$here/cache.sh"

append='' limit=300 keep=''
while [ $# -gt 0 ]; do
	case $1 in
	--append) append=$2 && shift 2 ;;
	--timeout) limit=$2 && shift 2 ;;
	--keep-log) keep=$2 && shift 2 ;;
	--) shift && break ;;
	*) vm_die "unknown option $1" ;;
	esac
done
[ $# -gt 0 ] || vm_die "no command given"
qemu=$(command -v qemu-system-x86_64) || { echo "vm: qemu-system-x86 is not installed here" >&2; exit 125; }

kernel=$("$here/kernel.sh") || exit 125
initrd=$("$here/initrd.sh" "$kernel")/initrd || exit 125
root=$("$here/rootfs.sh")/root.ext4 || exit 125

dir=$(mktemp -d "${TMPDIR:-/tmp}/brig-vm.XXXXXX")
pid=''
# shellcheck disable=SC2317
cleanup() {
	[ -z "$pid" ] || kill "$pid" 2>/dev/null || :
	[ -z "$keep" ] || cp "$dir/console" "$keep" 2>/dev/null || :
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

mkdir "$dir/.vm"
printf '%q ' exec "$@" > "$dir/.vm/cmd"
(cd "$top" && { find VERSION build/brig build/brig-init build/brig-sudo build/tests tests tools -type f ! -name '*.o' 2>/dev/null || :; }) |
	sort > "$dir/list"
tar -c --owner=0 --group=0 -f "$dir/build.tar" -C "$top" --no-recursion -T "$dir/list" -C "$dir" .vm/cmd
: > "$dir/status"
# QEMU would make our standard output non-blocking for all who share it, so cat stands between. The
# extra writer keeps cat from ending, or waiting, because of when QEMU opens its end.
mkfifo "$dir/out"
exec 4<> "$dir/out"
cat < "$dir/out" 4>&- &
out=$!

# However this script ends, nothing of it goes on.
setpriv --pdeathsig TERM timeout --foreground -k 5 "$limit" \
	setpriv --pdeathsig KILL "$qemu" -nodefaults -no-user-config -display none -no-reboot \
	-machine pc,usb=off,vmport=off -accel tcg,thread=multi,tb-size=256 -cpu max,la57=off -smp 2 -m 1536 \
	-kernel "$kernel/vmlinuz" -initrd "$initrd" \
	-append "console=ttyS0 quiet panic=-1 mitigations=off cgroup_no_v1=all random.trust_cpu=on tsc=reliable no_timer_check $append" \
	-drive "if=none,id=root,format=raw,readonly=on,file=$root" -device virtio-blk-pci,drive=root \
	-drive "if=none,id=build,format=raw,readonly=on,file=$dir/build.tar" -device virtio-blk-pci,drive=build \
	-chardev "file,id=console,path=$dir/console" -serial chardev:console \
	-device virtio-serial-pci \
	-chardev "file,id=out,path=$dir/out" -device virtserialport,chardev=out,name=out \
	-chardev "file,id=status,path=$dir/status" -device virtserialport,chardev=status,name=status \
	< /dev/null 4>&- &
pid=$!
rc=0
wait "$pid" || rc=$?
pid=''
exec 4>&-
wait "$out" || :

status=$(tr -dc 0-9 < "$dir/status")
if [ -n "$status" ]; then
	exit "$status"
fi
echo "vm: $([ "$rc" = 124 ] && echo "no end after $limit s" || echo "the guest ended without a status (qemu: $rc)"); its console:" >&2
sed 's/^/vm: | /' "$dir/console" >&2 || :
[ "$rc" = 124 ] || rc=125
exit "$rc"
