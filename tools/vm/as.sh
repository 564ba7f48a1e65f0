#!/bin/bash
# Inside the test guest: as.sh delegated|login USER CMD... runs CMD as USER with an environment like
# a login's, from a cgroup below the user's delegated one or from the login session's own.
set -eu
how=$1 user=$2
shift 2
uid=$(id -u "$user")
slice=/sys/fs/cgroup/user.slice/user-$uid.slice
case $how in
delegated) leaf=$slice/user@$uid.service/app.slice/run.scope ;;
login) leaf=$slice/session-2.scope ;;
*) echo "as.sh: delegated or login, not '$how'" >&2; exit 2 ;;
esac
(echo "$BASHPID" > "$leaf/cgroup.procs"; exec setpriv --reuid "$uid" --regid "$uid" --clear-groups \
	env -i PATH="$PATH" HOME="/home/$user" USER="$user" LOGNAME="$user" SHELL=/bin/bash LC_ALL=C.UTF-8 \
	XDG_RUNTIME_DIR="/run/user/$uid" ${BRIG:+BRIG="$BRIG"} "$@")
