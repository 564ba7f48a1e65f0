# shellcheck shell=bash
# The bash kernel: an interactive shell without a terminal, which reads this text and then commands on its
# standard input. Interactive, because only such a shell goes on with the next line after an interrupt.
set +m +o history
unset HISTFILE PROMPT_COMMAND
__brig_undo=
__brig_setup() {
	[ -z "$1" ] || cd -- "$1" 2>/dev/null || : # it stays where it is
	while [ $# -gt 2 ]; do
		export "$2=$3"
		shift 2
	done
	return 0
}
# NAME VALUE ... for one execution; $? stays what it was.
__brig_env() {
	local status=$? old
	__brig_undo=
	while [ $# -gt 1 ]; do
		if [ -n "${!1+x}" ]; then
			printf -v old '%q' "${!1}"
			__brig_undo+="export $1=$old;"
		else
			__brig_undo+="unset -v $1;"
		fi
		export "$1=$2"
		shift 2
	done
	return "$status"
}
__brig_end() {
	local status=$?
	eval "$__brig_undo"
	__brig_undo=
	if [ "$status" -ne 0 ]; then
		printf '{"type":"error","name":"ExitStatus","value":"%d","traceback":""}\n' "$status" >&4
	fi
	printf '{"type":"end_of_execution"}\n' >&4
	return "$status"
}
printf '{"type":"ready"}\n' >&4
